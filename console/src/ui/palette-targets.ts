/** What the palette finds: objects, services, screens, codes, buttons. How it looks is in `palette.tsx`. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { json, query } from '../api/client'
import { useOverview } from '../api/live'
import { KINDS, type Kind, type ObjectRow, type RegistryService, type Second } from '../api/types'
import { parseCurl } from '../lib/curl'
import { pattern } from '../lib/pattern'
import { useWords } from '../words/words'
import { usePlaces } from './places'

/** Something that the palette leads to. */
export interface Target { key: string; label: string; description?: string; go: () => void }

/** Objects asked of each kind. */
const ROWS = 5

/** ShenYu's kinds, and the argument by which each is searched. */
const SHENYU = { selector: 'name', rule: 'name', plugin: 'name', 'meta-data': 'path', appAuth: 'appKey' } as const
type ShenyuKind = keyof typeof SHENYU

interface Found { kind: Kind; row: ObjectRow }
interface ShenyuRow { id: string; name?: string; path?: string; appKey?: string; pluginName?: string }

/** What the search finds: a request to explain, objects of all kinds, error codes, screens, and what the screen offers. */
export function useTargets(search: string): Target[] {
  const words = useWords()
  const navigate = useNavigate()
  const client = useQueryClient()
  const places = usePlaces()
  const hasShenyu = useOverview().data?.shenyu === true
  const hasRegistry = useOverview().data?.registry !== null
  const isAsked = search !== '' && !search.includes('://') && !search.startsWith('code:')
  const objects = useFound<Found>(['objects', search], isAsked, async (signal) => {
    const all = await Promise.all(KINDS.map(async (kind) => {
      const { rows } = await json<{ rows: ObjectRow[] }>(`/console/v1/objects/${kind}${query({ q: search, page_size: ROWS })}`, { signal })
      return rows.map((row) => ({ kind, row }))
    }))
    return all.flat()
  })
  const services = useFound<RegistryService>(['services', search], isAsked && hasRegistry, async (signal) =>
    (await json<{ list: RegistryService[] }>(`/registry/v1/services${query({ name: pattern(search), page_size: ROWS })}`, { signal })).list)
  const shenyu = useFound<{ kind: ShenyuKind; row: ShenyuRow }>(['shenyu', search], isAsked && hasShenyu, async (signal) => {
    const all = await Promise.all((Object.keys(SHENYU) as ShenyuKind[]).map(async (kind) => {
      const asked = { [SHENYU[kind]]: search, currentPage: 1, pageSize: ROWS }
      const { data } = await json<{ data: { dataList: ShenyuRow[] } }>(`/console/v1/shenyu/${kind}${query(asked)}`, { signal })
      return data.dataList.map((row) => ({ kind, row }))
    }))
    return all.flat()
  })
  const request = search.startsWith('curl ') ? parseCurl(search) : search.includes('://') ? { url: search, headers: [] } : undefined
  if (request) {
    const { url, method, headers, body } = request as { url: string; method?: string; headers: string[]; body?: string }
    return [{ key: 'explain', label: words.explainThis(url), go: () => void navigate({ to: '/explain', search: { url, method, h: headers.join('\n') || undefined, body } }) }]
  }
  const matches = (label: string) => label.toLowerCase().includes(search.replace(/^code:/, '').toLowerCase())
  const seen = new Set((client.getQueryData<Second[]>(['live']) ?? []).flatMap((second) => Object.keys(second.failures)))
  // A code that was not seen of late is looked for where it is written out.
  if (search.startsWith('code:') && search.length > 5) seen.add(search.slice(5))
  return [
    ...objects.map(({ kind, row }) => ({
      key: `${kind}/${row.id}`, label: row.name ?? row.username ?? row.id,
      description: [words[kind], row.id, row.uri ?? row.uris?.[0], row.host ?? row.hosts?.[0]].filter(Boolean).join(' · '),
      go: () => void navigate({ to: '/objects/$kind/$id', params: { kind, id: row.id } }),
    })),
    ...services.map(({ namespace, name }) => ({
      key: `service ${namespace}/${name}`, label: name, description: [words.registryServices, namespace].join(' · '),
      go: () => void navigate({ to: '/registry/$namespace/$service', params: { namespace, service: name } }),
    })),
    ...shenyu.map(({ kind, row }) => ({
      key: `shenyu ${kind}/${row.id}`, label: row.name ?? row.path ?? row.appKey ?? row.id,
      description: [words.shenyu, words.shenyuKinds[kind], row.pluginName].filter(Boolean).join(' · '),
      go: () => void navigate({ to: '/shenyu/$kind/$id', params: { kind, id: row.id } }),
    })),
    ...(search === '' ? [] : [...seen].filter(matches).map((code) => ({
      key: `code ${code}`, label: code, description: words.requestsOfCode, go: () => void navigate({ to: '/requests', search: { code } }),
    }))),
    ...places.map(({ to, title }) => ({ key: to, label: title(words), go: () => void navigate({ to }) })).filter(({ label }) => matches(label)),
  ]
}

function useFound<T>(key: string[], isAsked: boolean, ask: (signal: AbortSignal) => Promise<T[]>): T[] {
  const found = useQuery<T[]>({ queryKey: ['palette', ...key], enabled: isAsked, placeholderData: (previous) => previous, queryFn: ({ signal }) => ask(signal) })
  return isAsked ? (found.data ?? []) : []
}

/** What the screen behind the palette offers: its own buttons, pressed by their names. */
export function actionsOf(root: ParentNode): Target[] {
  const all = [...root.querySelectorAll<HTMLElement>('[data-edit], [data-new], [data-add], [data-undo], [data-delete], [data-pause]')]
  const open = all.filter((button) => !button.matches(':disabled, [data-disabled]') && button.closest('tbody') === null)
  return open.map((button) => ({ key: `press ${button.textContent}`, label: button.textContent ?? '', go: () => button.click() }))
}
