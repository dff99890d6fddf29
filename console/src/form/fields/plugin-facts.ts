/** What the gateway says of its plugins: schemas, and what each is for. */
import { useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'
import type { PluginRow } from '../../api/types'
import type { Schema } from '../plan'

/** What a plugin is, as the gateway says it. */
export interface PluginFacts { schema: Schema; consumer_schema?: Schema; priority: number }

/** All plugins with their schemas; they change with the program only. */
export const usePluginFacts = () =>
  useQuery({
    // Not the key of the catalogue, which has another shape.
    queryKey: ['plugin schemas'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<Record<string, PluginFacts>>('/apisix/admin/plugins?all=true', { signal }),
  })

/** What each plugin is for, in the gateway's words. */
export const usePluginRows = () =>
  useQuery({ queryKey: ['plugins'], staleTime: 30_000, queryFn: ({ signal }) => json<{ rows: PluginRow[] }>('/console/v1/plugins', { signal }) }).data?.rows
