/** How many requests objects take, for the rows that are in sight. */
import { useQuery } from '@tanstack/react-query'
import { json, query } from './client'

export interface Rate { id: string; rate: number; failed_rate: number; requests: number; failed: number; last_seen: number }

/** Kinds whose requests are counted. */
export const RATED = ['routes', 'upstreams', 'consumers'] as const
export type Rated = (typeof RATED)[number]

export const isRated = (kind: string): kind is Rated => (RATED as readonly string[]).includes(kind)

/** How many requests objects take a second: of these, or the busiest of all. */
export const useRates = (kind: Rated | undefined, ids: string[] | undefined, sort?: 'failures') =>
  useQuery({
    queryKey: ['rates', kind, ids, sort],
    enabled: kind !== undefined && (ids === undefined || ids.length > 0),
    refetchInterval: 5000,
    queryFn: ({ signal }) => json<{ total: number; rows: Rate[] }>(`/console/v1/live/${kind}${query({ ids: ids?.filter((id) => !id.includes(',')).join(','), sort })}`, { signal }),
  })
