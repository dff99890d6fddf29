import { useQuery, useQueryClient } from '@tanstack/react-query'
import { json } from './client'
import type { Overview, Second } from './types'

/** Seconds kept, as the gateway keeps them: the page never grows. */
const SECONDS_KEPT = 900

/** The last 15 minutes; each poll brings what is new. Stops while the tab is hidden. */
export function useLive() {
  const client = useQueryClient()
  return useQuery({
    queryKey: ['live'],
    refetchInterval: 1000,
    queryFn: async ({ signal }): Promise<Second[]> => {
      const known = client.getQueryData<Second[]>(['live']) ?? []
      const since = known.at(-1)?.at ?? 0
      const { seconds } = await json<{ seconds: Second[] }>(`/console/v1/live?since=${since}`, { signal })
      const first = seconds[0]
      // A gateway that was restarted counts anew.
      const kept = first && first.at <= since ? [] : known
      return [...kept, ...seconds].slice(-SECONDS_KEPT)
    },
  })
}

export const useOverview = () =>
  useQuery({
    queryKey: ['overview'],
    refetchInterval: 5000,
    queryFn: ({ signal }) => json<Overview>('/console/v1/overview', { signal }),
  })
