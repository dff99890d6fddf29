/** What the load generator is asked. */
import { useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'

/** Value over all repetitions, with the lowest and the highest of one. */
export interface Range { value: number; low: number; high: number }

/** Figures of a measured case; times in milliseconds. */
export interface Figures {
  target: string
  runs: number
  goodput: Range | null
  p50: Range | null
  p99: Range | null
  mean: Range | null
  completed: number
  failed: number
  failures: Record<string, number>
  /** Percentiles with their times; left out of lists. */
  curve?: [number, number][]
}

/** A threshold: how often it was met, and the cases that missed it with what was measured. */
export interface Outcome { condition: string; met: number; missed: [string, string][] }

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
  thresholds?: string[]
  command: string
  end?: 'done' | 'failed' | 'stopped'
  is_running?: boolean
  elapsed_seconds?: number
  last_line?: string | null
  lines?: string[]
  text?: string
  series?: [number, number, number, number][][]
  /** Figures; measurements of an older version have none. */
  cases?: Figures[]
  outcomes?: Outcome[]
}

export interface Benches { is_on: boolean; targets: string[]; running: Run | null; runs: Run[]; seconds_max: number; connections_max: number }

export const useBenches = () =>
  useQuery<Benches>({
    queryKey: ['benches'],
    refetchInterval: (query) => (query.state.data?.running ? 1000 : 5000),
    queryFn: ({ signal }) => json<Benches>('/console/v1/bench', { signal }),
  })

/** Starts a measurement with the plan of another; gives its id. */
export async function repeat({ url, name, connections, seconds, repeat, rate, thresholds = [] }: Run): Promise<string> {
  const body = JSON.stringify({ url, name, connections, seconds, repeat, rate, thresholds })
  return (await json<{ id: string }>('/console/v1/bench/runs', { method: 'POST', body })).id
}
