/**
 * The one list of screens. Each row is a screen: its address, the search in it, the part of the program that draws it,
 * and in `places` its title, its section of the navigation and its key.
 */
import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Failed, Frame, NotFound } from './ui/frame'
import { rangeOf } from './features/overview/range'
import { Overview } from './features/overview/screen'
import { isKind, type Kind, KINDS } from './api/types'
import type { EditorView } from './form/views'
import { nameOf, segmentOf } from './lib/segment'

/** A text; one of digits alone arrives as a number where somebody has typed the address. */
const text = (value: unknown) => (typeof value === 'number' ? String(value) : typeof value === 'string' && value !== '' ? value : undefined)
const page = (value: unknown) => (Number(value) > 1 ? Math.floor(Number(value)) : undefined)

const id = (value: unknown) => (value === undefined ? undefined : text(String(value)))

/** A filter, a page and an order, as all lists of objects have them. */
const list = (raw: Record<string, unknown>): ObjectSearch => ({
  q: text(raw.q), page: page(raw.page), sort: text(raw.sort), problem: raw.problem === true || undefined,
})

const editorSearch = (raw: Record<string, unknown>): EditorSearch => ({
  view: raw.view === 'form' || raw.view === 'json' || raw.view === 'both' ? raw.view : undefined, of: id(raw.of),
})

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

/** `sort` is what a list is ordered by, with a `-` before it for the last first. */
/** `in` is what files are searched by: the names of groups unless told otherwise. */
export interface ConfigSearch { q?: string; page?: number; in?: 'group' | 'name' | 'content' | 'tags' }
export interface ConfigFileSearch { file?: string; tab?: 'difference' | 'releases' | 'clients' }
export interface AccessSearch { tab?: 'users' | 'groups' | 'roles' | 'policies' | 'rehearsal' }
export interface ServiceSearch { q?: string; page?: number; sort?: string; tab?: 'namespaces' }
export interface ObjectSearch { q?: string; page?: number; sort?: string; problem?: boolean }
/** `in` is the plugin that selectors are of, or the selector that rules are of. */
export interface ShenyuSearch { q?: string; page?: number; in?: string }
/** `of` is what a new object is of, where that comes before its id. */
export interface EditorSearch { view?: EditorView; of?: string }
export interface RequestSearch { q?: string; code?: string; status?: string; route?: string; page?: number }
export interface ChangeSearch { kind?: string; id?: string; actor?: string; way?: string; before?: number }
export interface InstanceSearch { tab?: 'aliases' | 'events'; q?: string; page?: number; sort?: string }
export interface RuleSearch { kind?: string; service?: string; q?: string; page?: number; sort?: string }
export interface ExplainSearch { url?: string; method?: string; h?: string; from?: string; body?: string }

const overview = createRoute({
  getParentRoute: () => root,
  path: '/',
  validateSearch: rangeOf,
  component: Overview,
  staticData: { places: [{ section: 'watch', title: (words) => words.overview, key: 'o' }] },
})

const requests = createRoute({
  getParentRoute: () => root,
  path: '/requests',
  validateSearch: (raw: Record<string, unknown>): RequestSearch => ({
    q: text(raw.q), code: text(raw.code), status: text(raw.status), route: text(raw.route), page: page(raw.page),
  }),
  component: lazyRouteComponent(() => import('./features/requests/screen'), 'Requests'),
  staticData: { places: [{ section: 'watch', title: (words) => words.requests, key: 'q' }] },
})

const explain = createRoute({
  getParentRoute: () => root,
  path: '/explain',
  validateSearch: (raw: Record<string, unknown>): ExplainSearch => ({
    url: text(raw.url), method: text(raw.method), h: text(raw.h), from: text(raw.from), body: text(raw.body),
  }),
  component: lazyRouteComponent(() => import('./features/explain/screen'), 'Explain'),
  staticData: { places: [{ section: 'watch', title: (words) => words.explain, key: 'x' }] },
})

const nodes = createRoute({
  getParentRoute: () => root,
  path: '/nodes',
  validateSearch: (raw: Record<string, unknown>): { q?: string; state?: string; page?: number } => ({ q: text(raw.q), state: text(raw.state), page: page(raw.page) }),
  component: lazyRouteComponent(() => import('./features/nodes/screen'), 'Nodes'),
  staticData: { places: [{ section: 'watch', title: (words) => words.nodes, key: 'n' }] },
})

const registry = createRoute({
  getParentRoute: () => root,
  path: '/registry',
  validateSearch: (raw: Record<string, unknown>): ServiceSearch => ({ q: text(raw.q), page: page(raw.page), sort: text(raw.sort), tab: raw.tab === 'namespaces' ? raw.tab : undefined }),
  component: lazyRouteComponent(() => import('./features/registry/list'), 'RegistryServices'),
  staticData: { places: [{ section: 'registry', title: (words) => words.registryServices, key: 't' }] },
})

const registryService = createRoute({
  getParentRoute: () => root,
  path: '/registry/$namespace/$service',
  // Names may be anything, and a part of a path may not.
  params: {
    parse: ({ namespace, service }: { namespace: string; service: string }) => ({ namespace: nameOf(namespace), service: nameOf(service) }),
    stringify: ({ namespace, service }: { namespace: string; service: string }) => ({ namespace: segmentOf(namespace), service: segmentOf(service) }),
  },
  validateSearch: (raw: Record<string, unknown>): InstanceSearch => ({ tab: raw.tab === 'events' || raw.tab === 'aliases' ? raw.tab : undefined, q: text(raw.q), page: page(raw.page), sort: text(raw.sort) }),
  component: lazyRouteComponent(() => import('./features/registry/detail'), 'RegistryService'),
})

const rules = createRoute({
  getParentRoute: () => root,
  path: '/registry/rules',
  validateSearch: (raw: Record<string, unknown>): RuleSearch => ({ kind: text(raw.kind), service: text(raw.service), q: text(raw.q), page: page(raw.page), sort: text(raw.sort) }),
  component: lazyRouteComponent(() => import('./features/registry/rules'), 'RegistryRules'),
  staticData: { places: [{ section: 'registry', title: (words) => words.rules }] },
})

const rule = createRoute({
  getParentRoute: () => root,
  path: '/registry/rules/$kind/$id',
  params: {
    parse: ({ kind, id }: { kind: string; id: string }) => ({ kind, id: id === '+' ? id : nameOf(id) }),
    stringify: ({ kind, id }: { kind: string; id: string }) => ({ kind, id: id === '+' ? id : segmentOf(id) }),
  },
  validateSearch: (raw: Record<string, unknown>): EditorSearch => editorSearch(raw),
  component: lazyRouteComponent(() => import('./features/registry/rule'), 'RegistryRule'),
})

const config = createRoute({
  getParentRoute: () => root,
  path: '/config',
  validateSearch: (raw: Record<string, unknown>): ConfigSearch => ({ q: text(raw.q), page: page(raw.page), in: raw.in === 'name' || raw.in === 'content' || raw.in === 'tags' ? raw.in : undefined }),
  component: lazyRouteComponent(() => import('./features/config/list'), 'ConfigGroups'),
  staticData: { places: [{ section: 'registry', title: (words) => words.files.title }] },
})

const configFiles = createRoute({
  getParentRoute: () => root,
  path: '/config/$namespace/$group',
  params: {
    parse: ({ namespace, group }: { namespace: string; group: string }) => ({ namespace: nameOf(namespace), group: nameOf(group) }),
    stringify: ({ namespace, group }: { namespace: string; group: string }) => ({ namespace: segmentOf(namespace), group: segmentOf(group) }),
  },
  validateSearch: (raw: Record<string, unknown>): ConfigFileSearch => ({ file: id(raw.file), tab: raw.tab === 'difference' || raw.tab === 'releases' || raw.tab === 'clients' ? raw.tab : undefined }),
  component: lazyRouteComponent(() => import('./features/config/group'), 'ConfigFiles'),
})

const access = createRoute({
  getParentRoute: () => root,
  path: '/access',
  validateSearch: (raw: Record<string, unknown>): AccessSearch => ({ tab: raw.tab === 'groups' || raw.tab === 'roles' || raw.tab === 'policies' || raw.tab === 'rehearsal' ? raw.tab : undefined }),
  component: lazyRouteComponent(() => import('./features/access/screen'), 'Access'),
  staticData: { places: [{ section: 'manage', title: (words) => words.access.title }] },
})

const params = {
  parse: ({ kind }: { kind: string }) => (isKind(kind) ? { kind } : (false as never)),
}

const ofObject = {
  parse: ({ kind, id: own }: { kind: string; id: string }) => (isKind(kind) ? { kind, id: own } : (false as never)),
}

/** Kinds with a list in the navigation; certificates have a screen of their own. */
const OBJECTS = KINDS.filter((kind) => kind !== 'ssls')
const RARE: Kind[] = ['consumer_groups', 'plugin_configs', 'global_rules', 'plugin_metadata', 'stream_routes', 'protos', 'secrets']
const OBJECT_KEYS: Partial<Record<Kind, string>> = { routes: 'r', services: 's', upstreams: 'u', consumers: 'c' }

const objects = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind',
  params,
  validateSearch: list,
  component: lazyRouteComponent(() => import('./features/objects/list'), 'ObjectList'),
  staticData: { places: OBJECTS.map((kind) => ({ section: 'gateway', title: (words) => words[kind], key: OBJECT_KEYS[kind], to: `/objects/${kind}`, isRare: RARE.includes(kind) })) },
})

const object = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind/$id',
  params: ofObject,
  component: lazyRouteComponent(() => import('./features/objects/detail'), 'ObjectDetail'),
})

const editor = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind/$id/edit',
  params: ofObject,
  validateSearch: editorSearch,
  component: lazyRouteComponent(() => import('./features/objects/editor'), 'ObjectEditor'),
})

const create = createRoute({
  getParentRoute: () => root,
  path: '/new/$kind',
  params,
  validateSearch: editorSearch,
  component: lazyRouteComponent(() => import('./features/objects/editor'), 'NewObject'),
})

const changes = createRoute({
  getParentRoute: () => root,
  path: '/changes',
  validateSearch: (raw: Record<string, unknown>): ChangeSearch => ({
    kind: text(raw.kind), id: text(raw.id === undefined ? undefined : String(raw.id)), actor: text(raw.actor), way: text(raw.way), before: Number(raw.before) > 0 ? Number(raw.before) : undefined,
  }),
  component: lazyRouteComponent(() => import('./features/changes/list'), 'Changes'),
  staticData: { places: [{ section: 'manage', title: (words) => words.changes, key: 'h' }] },
})

const importing = createRoute({
  getParentRoute: () => root,
  path: '/changes/import',
  component: lazyRouteComponent(() => import('./features/changes/import'), 'Import'),
})

const change = createRoute({
  getParentRoute: () => root,
  path: '/changes/$name',
  component: lazyRouteComponent(() => import('./features/changes/detail'), 'Change'),
})

const plugins = createRoute({
  getParentRoute: () => root,
  path: '/plugins',
  validateSearch: (raw: Record<string, unknown>): { q?: string; used?: boolean } => ({ q: text(raw.q), used: raw.used === true || undefined }),
  component: lazyRouteComponent(() => import('./features/plugins/list'), 'Plugins'),
  staticData: { places: [{ section: 'gateway', title: (words) => words.pluginsTitle, key: 'p' }] },
})

const plugin = createRoute({
  getParentRoute: () => root,
  path: '/plugins/$name',
  component: lazyRouteComponent(() => import('./features/plugins/detail'), 'Plugin'),
})

const certificates = createRoute({
  getParentRoute: () => root,
  path: '/certificates',
  validateSearch: (raw: Record<string, unknown>): ObjectSearch & { id?: string } => ({ q: text(raw.q), page: page(raw.page), id: text(raw.id === undefined ? undefined : String(raw.id)) }),
  component: lazyRouteComponent(() => import('./features/certificates/list'), 'Certificates'),
  staticData: { places: [{ section: 'gateway', title: (words) => words.ssls }] },
})

const SHENYU = ['plugin', 'selector', 'meta-data', 'appAuth'] as const

const shenyuObjects = createRoute({
  getParentRoute: () => root,
  path: '/shenyu/$kind',
  validateSearch: (raw: Record<string, unknown>): ShenyuSearch => ({ q: text(raw.q), page: page(raw.page), in: id(raw.in) }),
  component: lazyRouteComponent(() => import('./features/shenyu/list'), 'ShenyuObjects'),
  staticData: { places: SHENYU.map((kind) => ({ section: 'shenyu', title: (words) => words.shenyuKinds[kind], to: `/shenyu/${kind}` })) },
})

const shenyuObject = createRoute({
  getParentRoute: () => root,
  path: '/shenyu/$kind/$id',
  validateSearch: (raw: Record<string, unknown>): ShenyuSearch & EditorSearch => ({ ...editorSearch(raw), in: id(raw.in) }),
  component: lazyRouteComponent(() => import('./features/shenyu/editor'), 'ShenyuObject'),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  validateSearch: (raw: Record<string, unknown>): { q?: string; all?: boolean; page?: number; tab?: 'doctor' | 'log' } => ({
    q: text(raw.q), page: page(raw.page), all: raw.all === true || undefined, tab: raw.tab === 'doctor' || raw.tab === 'log' ? raw.tab : undefined,
  }),
  component: lazyRouteComponent(() => import('./features/settings/screen'), 'Settings'),
  staticData: { places: [{ section: 'manage', title: (words) => words.settings, key: ',' }] },
})

const bench = createRoute({
  getParentRoute: () => root,
  path: '/bench',
  component: lazyRouteComponent(() => import('./features/bench/list'), 'Bench'),
  staticData: { places: [{ section: 'manage', title: (words) => words.bench, key: 'b' }] },
})

const benchRun = createRoute({
  getParentRoute: () => root,
  path: '/bench/$id',
  component: lazyRouteComponent(() => import('./features/bench/run'), 'BenchRun'),
})

const benchCompare = createRoute({
  getParentRoute: () => root,
  path: '/bench/compare',
  validateSearch: (raw: Record<string, unknown>): { ids?: string } => ({ ids: id(raw.ids) }),
  component: lazyRouteComponent(() => import('./features/bench/compare'), 'BenchCompare'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    overview, requests, explain, nodes, registry, registryService, rules, rule, config, configFiles, access, objects, object, editor, create,
    certificates, plugins, plugin, shenyuObjects, shenyuObject, bench, benchRun, benchCompare, changes, importing, change, settings,
  ]),
  basepath: '/ui',
  defaultErrorComponent: Failed,
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
