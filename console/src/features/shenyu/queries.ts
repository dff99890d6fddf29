/** What is asked of ShenYu's objects, and of what their forms are made. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { call, json, query } from '../../api/client'
import type { Layer } from '../../form/layers/layer'
import { SETTINGS, SHENYU_LAYERS } from '../../form/layers/shenyu'
import type { Schema } from '../../form/plan'
import { quoted } from '../../lib/curl'
import { memberText } from '../../lib/json-text'
import { HELD, type ShenyuKind } from './document'

/** Rows of a page. */
export const ROWS = 50

export interface Row { id: string; name?: string; enabled?: boolean; sort?: number; [member: string]: unknown }

interface Forms {
  kinds: Record<string, Schema>
  plugins: Record<string, { config?: Schema; selector?: Schema; rule?: Schema } | undefined>
}

/** What narrows a list by a text, and by what its rows are of. */
const FILTERS: Record<ShenyuKind, { text: string; parent?: string }> = {
  plugin: { text: 'name' }, selector: { text: 'name', parent: 'pluginId' }, rule: { text: 'name', parent: 'selectorId' }, 'meta-data': { text: 'path' }, appAuth: { text: 'appKey' },
}

export const pathOf = (kind: ShenyuKind, id?: string) => `/console/v1/shenyu/${kind}${id === undefined ? '' : `/${encodeURIComponent(id)}`}`

export const useRows = (kind: ShenyuKind, search: { q?: string; page?: number; in?: string }, rows = ROWS) => {
  const { text, parent } = FILTERS[kind]
  const asked = { [text]: search.q, ...(parent ? { [parent]: search.in } : {}), currentPage: search.page ?? 1, pageSize: rows }
  return useQuery({
    queryKey: ['shenyu', kind, 'list', asked],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const { data } = await json<{ data: { page: { totalCount: number }; dataList: Row[] } }>(`${pathOf(kind)}${query(asked)}`, { signal })
      return { total: data.page.totalCount, rows: data.dataList }
    },
  })
}

/** The text of an object as it is told. */
export const useTold = (kind: ShenyuKind, id: string | undefined) =>
  useQuery({
    queryKey: ['shenyu', kind, 'one', id],
    enabled: id !== undefined,
    // What is being edited must not change below the hands.
    refetchOnWindowFocus: false,
    queryFn: async ({ signal }) => memberText((await call(pathOf(kind, id), { signal })).text, 'data') ?? '{}',
  })

/** The name of a plugin of ShenYu by its id; undefined while it is not known. */
export const usePluginName = (id: string): string | undefined => {
  const told = useTold('plugin', id === '' ? undefined : id)
  return told.data === undefined ? undefined : (JSON.parse(memberText(told.data, 'name') ?? 'null') as string | null) ?? undefined
}

/** What forms ask for; it changes with the program only. */
export const useForms = () =>
  useQuery({
    queryKey: ['shenyu', 'forms'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<Forms>('/console/v1/shenyu/forms', { signal }),
  })

/** The schema of an object of a plugin, with what that plugin reads of its settings. */
export function schemaOf(forms: Forms, kind: ShenyuKind, plugin: string, value: Record<string, unknown>): Schema {
  const schema = forms.kinds[kind] ?? {}
  const held = HELD[kind]
  if (held === undefined || kind === 'meta-data') return schema
  const scope = kind === 'plugin' ? 'config' : (kind as 'selector' | 'rule')
  const known = forms.plugins[plugin]?.[scope]
  // What is no JSON is shown as what it is.
  const isText = typeof value[held] === 'string' && value[held] !== ''
  if (known === undefined && !(held in value)) return schema
  const settings: Schema = isText || known === undefined ? {} : { ...known, description: known.description }
  return { ...schema, properties: { ...schema.properties, [held]: settings } }
}

/** The layer of an object of a plugin, with that of the settings which the plugin reads. */
export function layerOf(kind: ShenyuKind, plugin: string): Layer | undefined {
  const layer = SHENYU_LAYERS[kind]
  const held = HELD[kind]
  const scope = kind === 'plugin' ? 'config' : (kind as 'selector' | 'rule')
  const settings = held === undefined ? undefined : SETTINGS[plugin]?.[scope]
  if (layer === undefined || held === undefined || kind === 'meta-data') return layer
  return { ...layer, fields: { ...layer.fields, [held]: settings ?? { title: ['Settings', '设置'], inline: 'bare' } } }
}

export const curlOf = (method: string, path: string, text: string) =>
  `curl -X ${method} ${quoted(location.origin + path)} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(text)}`
