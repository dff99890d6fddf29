/** Where a route leads, from what the objects say of each other. How it is drawn is not known here. */
import { useQueries } from '@tanstack/react-query'
import { json, query } from '../api/client'
import type { NodeRow, ObjectFacts } from '../api/types'
import { isRecord } from '../lib/record'

export const factsOf = (kind: string, id: string) => ({
  queryKey: ['facts', kind, id],
  staleTime: 5000,
  queryFn: ({ signal }: { signal: AbortSignal }) => json<ObjectFacts>(`/console/v1/objects/${kind}/${encodeURIComponent(id)}`, { signal }),
})

export const nodesOf = (place: string) => ({
  queryKey: ['nodes', place],
  refetchInterval: 3000,
  queryFn: ({ signal }: { signal: AbortSignal }) => json<{ rows: NodeRow[] }>(`/console/v1/nodes${query({ q: place })}`, { signal }),
})

/** Where a route has its upstream: an object, or the route or service itself. */
export function upstreamPlace(id: string, route: Record<string, unknown>, service: Record<string, unknown> | undefined): string | undefined {
  if (route.upstream_id !== undefined) return `upstreams/${String(route.upstream_id)}`
  if (isRecord(route.upstream)) return `routes/${id}`
  if (service?.upstream_id !== undefined) return `upstreams/${String(service.upstream_id)}`
  // A service's own upstream is one of each route that uses it.
  return service === undefined ? undefined : `routes/${id}`
}

export interface RoutePath {
  id: string
  name: string
  value: Record<string, unknown>
  /** Names of the plugins of the route and of its service. */
  plugins: string[]
  /** Such as `upstreams/1`; undefined for a route without an upstream. */
  place: string | undefined
  nodes: NodeRow[]
}

/** The paths of these routes, as far as they are known by now. */
export function useRoutePaths(ids: string[]): RoutePath[] {
  const routes = useQueries({ queries: ids.map((id) => factsOf('routes', id)) })
  const values = routes.map((route) => route.data?.value)
  const serviceIds = [...new Set(values.flatMap((value) => (value?.service_id === undefined ? [] : [String(value.service_id)])))]
  const services = useQueries({ queries: serviceIds.map((id) => factsOf('services', id)) })
  const serviceOf = new Map(serviceIds.map((id, at) => [id, services[at]?.data?.value]))
  const paths = ids.flatMap((id, at) => {
    const value = values[at]
    if (value === undefined) return []
    const service = value.service_id === undefined ? undefined : serviceOf.get(String(value.service_id))
    const names = [value.plugins, service?.plugins].flatMap((plugins) => (isRecord(plugins) ? Object.keys(plugins) : []))
    return [{ id, name: typeof value.name === 'string' ? value.name : id, value, plugins: [...new Set(names)], place: upstreamPlace(id, value, service) }]
  })
  const places = [...new Set(paths.flatMap(({ place }) => place ?? []))]
  const nodes = useQueries({ queries: places.map(nodesOf) })
  const nodesAt = new Map(places.map((place, at) => [place, (nodes[at]?.data?.rows ?? []).filter((row) => row.place === place)]))
  return paths.map((path) => ({ ...path, nodes: path.place === undefined ? [] : (nodesAt.get(path.place) ?? []) }))
}

/** Listeners of the data plane that requests of routes come in by. */
export const listenersOf = (all: Record<string, string[]>): { name: string; addresses: string[] }[] =>
  Object.entries(all).flatMap(([name, addresses]) => (/^https?$|^http3$/.test(name) && addresses.length > 0 ? [{ name, addresses }] : []))

/** Whether no request goes to a node, or none of them is answered. */
export const isDown = (node: NodeRow) => node.address === null || ['failing', 'unhealthy', 'mostly_unhealthy'].includes(node.status)
