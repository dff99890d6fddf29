/** Questions that are asked again and again while somebody looks: the overview and the traffic. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { json } from './client'
import type { Overview, Second } from './types'

/** Seconds kept, as the gateway keeps them: the page never grows. */
const SECONDS_KEPT = 900

/** Seconds that a page may have missed before it asks for all of them again: the clock may have been set meanwhile, and the past have other times. */
const MISSED_S = 60

interface Live { now: number; seconds: Second[] }

/** The last 15 minutes; each poll brings what is new. Stops while the tab is hidden. */
export function useLive() {
  const client = useQueryClient()
  return useQuery({
    queryKey: ['live'],
    refetchInterval: 1000,
    queryFn: async ({ signal }): Promise<Second[]> => {
      const known = client.getQueryData<Second[]>(['live']) ?? []
      const since = known.at(-1)?.at ?? 0
      const { now, seconds } = await json<Live>(`/console/v1/live?since=${since}`, { signal })
      const isInStep = now >= since && (since === 0 || (seconds[0]?.at ?? since) - since <= MISSED_S)
      if (isInStep) return [...known, ...seconds].slice(-SECONDS_KEPT)
      const all = (await json<Live>('/console/v1/live?since=0', { signal })).seconds
      // A gateway that was restarted knows nothing of before.
      return (now >= since && (all[0]?.at ?? 0) > since ? [...known, ...all] : all).slice(-SECONDS_KEPT)
    },
  })
}

export const useOverview = () =>
  useQuery({
    queryKey: ['overview'],
    refetchInterval: 5000,
    queryFn: ({ signal }) => json<Overview>('/console/v1/overview', { signal }),
  })
