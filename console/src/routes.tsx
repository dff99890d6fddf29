import { createRootRoute, createRoute, createRouter, lazyRouteComponent } from '@tanstack/react-router'
import { Frame, NotFound } from './ui/frame'
import { Overview } from './features/overview/screen'
import { KINDS, type Kind } from './api/types'

const text = (value: unknown) => (typeof value === 'string' && value !== '' ? value : undefined)
const page = (value: unknown) => (Number(value) > 1 ? Math.floor(Number(value)) : undefined)

const root = createRootRoute({ component: Frame, notFoundComponent: NotFound })

export interface ObjectSearch { q?: string; page?: number }
export type EditorView = 'form' | 'json' | 'both'
export interface EditorSearch { view?: EditorView }
export interface RequestSearch { q?: string; code?: string; status?: string; route?: string }
export interface ExplainSearch { url?: string; method?: string; h?: string; from?: string; body?: string }

const overview = createRoute({ getParentRoute: () => root, path: '/', component: Overview })

const requests = createRoute({
  getParentRoute: () => root,
  path: '/requests',
  validateSearch: (raw: Record<string, unknown>): RequestSearch => ({
    q: text(raw.q), code: text(raw.code), status: text(raw.status), route: text(raw.route),
  }),
  component: lazyRouteComponent(() => import('./features/requests/screen'), 'Requests'),
})

const explain = createRoute({
  getParentRoute: () => root,
  path: '/explain',
  validateSearch: (raw: Record<string, unknown>): ExplainSearch => ({
    url: text(raw.url), method: text(raw.method), h: text(raw.h), from: text(raw.from), body: text(raw.body),
  }),
  component: lazyRouteComponent(() => import('./features/explain/screen'), 'Explain'),
})

const nodes = createRoute({
  getParentRoute: () => root,
  path: '/nodes',
  validateSearch: (raw: Record<string, unknown>): { q?: string } => ({ q: text(raw.q) }),
  component: lazyRouteComponent(() => import('./features/nodes/screen'), 'Nodes'),
})

const registry = createRoute({
  getParentRoute: () => root,
  path: '/registry',
  validateSearch: (raw: Record<string, unknown>): ObjectSearch => ({ q: text(raw.q), page: page(raw.page) }),
  component: lazyRouteComponent(() => import('./features/registry/list'), 'RegistryServices'),
})

const registryService = createRoute({
  getParentRoute: () => root,
  path: '/registry/$namespace/$service',
  component: lazyRouteComponent(() => import('./features/registry/detail'), 'RegistryService'),
})

const editorSearch = (raw: Record<string, unknown>): EditorSearch =>
  raw.view === 'form' || raw.view === 'json' ? { view: raw.view } : {}

const known = (kind: string): kind is Kind => (KINDS as readonly string[]).includes(kind)
const params = {
  parse: ({ kind, ...rest }: { kind: string }) => (known(kind) ? { kind, ...rest } : (false as never)),
}

const objects = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind',
  params,
  validateSearch: (raw: Record<string, unknown>): ObjectSearch => ({ q: text(raw.q), page: page(raw.page) }),
  component: lazyRouteComponent(() => import('./features/objects/list'), 'ObjectList'),
})

const object = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind/$id',
  component: lazyRouteComponent(() => import('./features/objects/detail'), 'ObjectDetail'),
})

const editor = createRoute({
  getParentRoute: () => root,
  path: '/objects/$kind/$id/edit',
  validateSearch: editorSearch,
  component: lazyRouteComponent(() => import('./features/objects/editor'), 'ObjectEditor'),
})

const create = createRoute({
  getParentRoute: () => root,
  path: '/new/$kind',
  validateSearch: editorSearch,
  component: lazyRouteComponent(() => import('./features/objects/editor'), 'NewObject'),
})

export const router = createRouter({
  routeTree: root.addChildren([
    overview, requests, explain, nodes, registry, registryService, objects, object, editor, create,
  ]),
  basepath: '/ui',
  scrollRestoration: true,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
}
