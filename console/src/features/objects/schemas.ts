import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'
import type { Kind } from '../../api/types'
import type { Problem } from '../../form/context'
import type { Schema } from '../../form/plan'

/** What the Admin API calls the schema of a kind. */
const SCHEMAS: Record<Kind, string> = {
  routes: 'route', services: 'service', upstreams: 'upstream', consumers: 'consumer', global_rules: 'global_rule',
  plugin_configs: 'plugin_config', ssls: 'ssl', stream_routes: 'stream_route',
}

/** The schema of a kind; it changes with the program only. */
export const useSchema = (kind: Kind) =>
  useQuery({
    queryKey: ['schema', kind],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<Schema>(`/apisix/admin/schema/${SCHEMAS[kind]}`, { signal }),
  })

export interface Verdict { valid: boolean; problems: Problem[] }

/** What the gateway would say of an object, without writing it. */
export const validate = (kind: Kind, id: string | undefined, text: string, signal?: AbortSignal) =>
  json<Verdict>(`/console/v1/validate/${kind}${id === undefined ? '' : `/${encodeURIComponent(id)}`}`, { method: 'POST', body: text, signal })

/** The same of a text that has come to rest; answers about an older one are dropped. */
export const useVerdict = (kind: Kind, id: string | undefined, text: string, isReadable: boolean) =>
  useQuery({
    queryKey: ['verdict', kind, id, text],
    enabled: isReadable,
    gcTime: 10_000,
    retry: false,
    refetchOnWindowFocus: false,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }): Promise<Verdict> => validate(kind, id, text, signal),
  })
