/** What was changed, and how it is taken back. What it looks like is in `features/changes`. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { call, json, query } from './client'
import type { ChangeDetail, ChangeList } from './types'

export interface ChangeFilter { kind?: string; id?: string; actor?: string; way?: string; before?: number; limit?: number }

export const useChanges = (filter: ChangeFilter, refetchInterval: number | false = 5000, enabled = true) =>
  useQuery({
    enabled,
    queryKey: ['changes', filter],
    refetchInterval,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<ChangeList>(`/console/v1/changes${query({ ...filter })}`, { signal }),
  })

export const useChange = (name: string, staleTime?: number) =>
  useQuery({
    queryKey: ['change', name],
    staleTime,
    queryFn: ({ signal }) => json<ChangeDetail>(`/console/v1/changes/${encodeURIComponent(name)}`, { signal }),
  })

/** Takes a change back; `seen` is the revision of an object that was changed since, where somebody has looked at it. */
export async function undoChange(name: string, seen?: number): Promise<number> {
  const headers: Record<string, string> = seen === undefined ? {} : { 'If-Match': `"${seen}"` }
  const answer = await call(`/console/v1/changes/${encodeURIComponent(name)}/undo`, { method: 'POST', headers })
  return (JSON.parse(answer.text) as { revision: number }).revision
}

/** What was read before a change is old after it. */
export function useForgetting() {
  const client = useQueryClient()
  return () => Promise.all(['changes', 'change', 'objects', 'object', 'facts', 'overview'].map((key) => client.invalidateQueries({ queryKey: [key] })))
}
