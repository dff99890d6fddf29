/** What the load generator is asked. */
import { useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'

/** A measurement: seconds, requests a second, median and p99 in milliseconds, a list for each repetition. */
export interface Run {
  id: string
  at_ms: number
  name: string
  url: string
  connections: number
  seconds: number
  repeat: number
  rate: number | null
  command: string
  end?: 'done' | 'failed' | 'stopped'
  is_running?: boolean
  elapsed_seconds?: number
  last_line?: string | null
  lines?: string[]
  text?: string
  series?: [number, number, number, number][][]
}

export interface Benches { is_on: boolean; targets: string[]; running: Run | null; runs: Run[]; seconds_max: number; connections_max: number }

export const useBenches = () =>
  useQuery<Benches>({
    queryKey: ['benches'],
    refetchInterval: (query) => (query.state.data?.running ? 1000 : 5000),
    queryFn: ({ signal }) => json<Benches>('/console/v1/bench', { signal }),
  })
