/** How many requests objects take, for the rows that are in sight. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { json, query } from './client'

export interface Rate {
  id: string
  rate: number
  failed_rate: number
  requests: number
  failed: number
  last_seen: number
  /** Of the last seconds; null where there were no requests, or where they are not known. */
  p50_ms: number | null
  p99_ms: number | null
  /** Requests that the plugins of a route refused; left out where they refused none. */
  refusals?: Refusals[]
}

/** Requests that a plugin refused: since the start, and a second. */
export interface Refusals { plugin: string; requests: number; rate: number }

/** Figures of the last 15 minutes, a column each, the oldest first. */
export interface History { at: number[]; rate: number[]; failed_rate: number[]; p50_ms: (number | null)[]; p99_ms: (number | null)[] }

/** What requests are counted of: kinds of objects, and nodes by their addresses. */
export const RATED = ['routes', 'upstreams', 'consumers', 'nodes'] as const
export type Rated = (typeof RATED)[number]

export const isRated = (kind: string): kind is Rated => (RATED as readonly string[]).includes(kind)

const asList = (ids: string[] | undefined) => ids?.filter((id) => !id.includes(',')).join(',')

/** How many requests objects take a second: of these, or the busiest of all. */
export const useRates = (kind: Rated | undefined, ids: string[] | undefined, sort?: 'failures') =>
  useQuery({
    queryKey: ['rates', kind, ids, sort],
    enabled: kind !== undefined && (ids === undefined || ids.length > 0),
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ total: number; rows: Rate[] }>(`/console/v1/live/${kind}${query({ ids: asList(ids), sort })}`, { signal }),
  })

/** The same with the last 15 minutes, for the charts of a page. */
export const useHistories = (kind: Rated, ids: string[]) =>
  useQuery({
    queryKey: ['histories', kind, ids],
    enabled: ids.length > 0,
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ total: number; rows: (Rate & { history: History })[] }>(`/console/v1/live/${kind}${query({ ids: asList(ids), history: 'true' })}`, { signal }),
  })
