/** What objects may hold, and what the gateway would say of one: it is asked, nothing is judged here. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'
import { useWho } from '../../api/session'
import type { Kind } from '../../api/types'
import type { Problem } from '../../form/context'
import type { Schema } from '../../form/plan'
import { KIND_FACTS } from './kinds'

/** The schema of an object; it changes with the program only. `id` is its own, or what is known of it before it has one. */
export const useSchema = (kind: Kind, id: string) => {
  const path = KIND_FACTS[kind].schema(id)
  return useQuery({
    queryKey: ['schema', path],
    enabled: path !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    // The schema of what applies to all uses of a plugin says no more than what its members are.
    queryFn: async ({ signal }): Promise<Schema> => ({ type: 'object', ...(await json<Schema>(`/apisix/admin/schema/${path}`, { signal })) }),
  })
}

export interface Verdict { valid: boolean; problems: Problem[] }

/** What the gateway would say of an object, without writing it. */
export const validate = (kind: Kind, id: string | undefined, text: string, signal?: AbortSignal) =>
  json<Verdict>(`/console/v1/validate/${kind}${id === undefined ? '' : `/${encodeURIComponent(id)}`}`, { method: 'POST', body: text, signal })

/** The same of a text that has come to rest; answers about an older one are dropped. */
export const useVerdict = (kind: Kind, id: string | undefined, text: string, isReadable: boolean) => {
  // Verdicts tell whose credentials are taken, and are for callers who may write.
  const isWriter = useWho().role !== 'viewer'
  return useQuery({
    queryKey: ['verdict', kind, id, text],
    enabled: isReadable && isWriter,
    gcTime: 10_000,
    retry: false,
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }): Promise<Verdict> => validate(kind, id, text, signal),
  })
}
