import { useQuery } from '@tanstack/react-query'
import { json, query } from './client'

export interface RouteRate { id: string; rate: number; failed_rate: number; requests: number; failed: number; last_seen: number }

/** How many requests routes take a second: of these, or the busiest of all. */
export const useRouteRates = (ids: string[] | undefined, sort?: 'failures') =>
  useQuery({
    queryKey: ['rates', ids, sort],
    enabled: ids === undefined || ids.length > 0,
    refetchInterval: 5000,
    queryFn: ({ signal }) => json<{ total: number; rows: RouteRate[] }>(`/console/v1/live/routes${query({ ids: ids?.filter((id) => !id.includes(',')).join(','), sort })}`, { signal }),
  })
