/** The path of a request through a route: what it takes, which plugins run, where it leads, and how each part does. */
import { Text, Title } from '@mantine/core'
import { useQueries, useQuery } from '@tanstack/react-query'
import { json, query } from '../../api/client'
import { useOverview } from '../../api/live'
import { type Rate, useRates } from '../../api/rates'
import type { NodeRow, PluginRow, PluginTime } from '../../api/types'
import { Figures, Refused } from '../../flow/figures'
import { Flow, type Step } from '../../flow/flow'
import { factsOf, isDown, listenersOf, nodesOf, upstreamPlace } from '../../flow/object-path'
import { isRecord } from '../../lib/record'
import type { Words } from '../../words/en'
import { useWords } from '../../words/words'

/** Nodes that are drawn; it is said how many there are. */
const NODES_SHOWN = 6

/** Global rules that are looked at: there are few, and each may hold plugins that run. */
const RULES_READ = 50

const texts = (...all: unknown[]) => all.flat().filter((it): it is string | number => it !== undefined && it !== null).map(String)

/** What runs where: a plugin of a route stands before the same of its plugin config, and that before its service's. */
interface Running { name: string; owner: string; to?: string; priority: number; phases: string[]; isOff: boolean }

/** The path of a request through a route: what it takes, which plugins run in which order, and which nodes are asked. */
export function Way({ id, value }: { id: string; value: Record<string, unknown> }) {
  const words = useWords()
  const named = (field: string) => (value[field] === undefined ? undefined : String(value[field]))
  const [serviceId, configId] = [named('service_id'), named('plugin_config_id')]
  const [service, config] = useQueries({
    queries: [
      { ...factsOf('services', serviceId ?? ''), enabled: serviceId !== undefined },
      { ...factsOf('plugin_configs', configId ?? ''), enabled: configId !== undefined },
    ],
  })
  const rate = useRates('routes', [id]).data?.rows[0]
  const refusals = rate?.refusals ?? []
  const rules = useRules()
  const overview = useOverview().data
  const listeners = listenersOf(overview?.listeners ?? {})
  const catalogue = useQuery({ queryKey: ['plugins'], staleTime: 30_000, queryFn: ({ signal }) => json<{ rows: PluginRow[] }>('/console/v1/plugins', { signal }) })
  const serviceValue = service?.data?.value
  const place = upstreamPlace(id, value, serviceValue)
  const own = place?.startsWith('upstreams/') ? place.slice(10) : undefined
  const found = useNodes(place)
  const nodes = found ?? []
  const upstreamRate = useRates('upstreams', own === undefined ? [] : [own]).data?.rows[0]
  const nodeRates = useRates('nodes', nodes.slice(0, NODES_SHOWN).flatMap((node) => node.address ?? [])).data?.rows ?? []
  const search = { route: id }
  const byName = new Map((catalogue.data?.rows ?? []).map((row) => [row.name, row]))
  const running = order([
    { owner: words.owners.route, confs: value.plugins },
    { owner: `${words.owners.config} ${configId ?? ''}`, to: `/objects/plugin_configs/${configId ?? ''}`, confs: config?.data?.value.plugins },
    { owner: `${words.owners.service} ${serviceId ?? ''}`, to: `/objects/services/${serviceId ?? ''}`, confs: serviceValue?.plugins },
  ], byName)
  const global = rules.flatMap(({ id: rule, value: conf }) => order([{ owner: `${words.owners.rule} ${rule}`, to: `/objects/global_rules/${rule}`, confs: conf.plugins }], byName))
  const steps: Step[] = [
    ...(listeners.length === 0 ? [] : [{
      key: 'listeners', owner: words.listens, title: listeners.map(({ name }) => name).join(' '), to: '/',
      notes: listeners.map(({ name, addresses }) => <span key={name} className="mono">{addresses.join(' ')}</span>),
    }]),
    {
      key: 'match', owner: words.wayTakes, title: texts(value.uri, value.uris).join(' ') || '–',
      notes: [texts(value.host, value.hosts).join(' ') || words.anyHost, Array.isArray(value.methods) ? value.methods.join(' ') : ''].filter(Boolean),
      figures: <Figures of={rate} search={search} />, isBad: rate !== undefined && rate.failed_rate > 0,
    },
    ...[...global, ...running].map((it): Step => ({
      key: `${it.owner} ${it.name}`, owner: it.owner, title: it.name, to: it.to ?? `/plugins/${it.name}`,
      notes: it.isOff ? [words.off] : [<span key="p" lang="en">{it.phases.join(', ')}</span>, ...timeOf(overview?.plugin_times?.[it.name], words)],
      figures: it.isOff ? undefined : <Refused of={refusals.find(({ plugin }) => plugin === it.name)} route={id} all={rate?.rate ?? 0} />,
    })),
    {
      key: 'nodes', owner: place === undefined ? words.noUpstream : place.startsWith('upstreams/') ? `${words.upstream} ${own}` : words.upstream, to: own !== undefined ? `/objects/upstreams/${own}` : undefined,
      title: nodes.length > 0 ? words.nodesInline(nodes.length) : found === undefined ? '…' : words.none,
      isBad: nodes.length > 0 && nodes.every(isDown),
      figures: place === undefined ? undefined : <Figures of={upstreamRate ?? rate} search={search} />,
    },
    ...(nodes.length === 0 ? [] : [{
      key: 'each', owner: words.nodes, to: `/nodes?q=${encodeURIComponent(place ?? '')}`, title: words.nodesHealthy(nodes.filter((node) => !isDown(node)).length, nodes.length), isBad: nodes.some(isDown),
      notes: [...nodes.slice(0, NODES_SHOWN).map((node) => <Node key={`${node.host}:${node.port}`} node={node} rate={nodeRates.find((row) => row.id === node.address)} />), nodes.length > NODES_SHOWN ? '…' : ''].filter(Boolean),
    }]),
  ]
  return (
    <section>
      <Title order={2} size="h4" mb="xs">{words.way}</Title>
      {value.status === 0 && <Text size="sm" c="dimmed" mb="xs">{words.wayOff}</Text>}
      <Flow steps={steps} label={words.way} />
    </section>
  )
}

/** What a plugin takes of a request's time, on all routes. */
function timeOf(time: PluginTime | undefined, words: Words): string[] {
  const isKnown = typeof time?.mean === 'number' && typeof time.p99 === 'number'
  return isKnown ? [words.pluginTime(words.us(time.mean ?? 0), words.us(time.p99 ?? 0))] : []
}

function Node({ node, rate }: { node: NodeRow; rate: Rate | undefined }) {
  const words = useWords()
  const isBad = isDown(node)
  return (
    <div className="step-node" title={node.reason}>
      <span className="mono">
        <span aria-hidden className={isBad ? 'dot bad' : node.is_checked ? 'dot good' : 'dot'}>{isBad ? '■' : '●'}</span> {`${node.host}:${node.port} × ${node.weight}`}
        <span className="unseen"> {isBad ? words.unhealthy : node.is_checked ? words.healthy : words.unchecked}</span>
      </span>
      <Figures of={rate} search={{ q: node.address ?? `${node.host}:${node.port}` }} />
    </div>
  )
}

/** The plugins of these owners in the order in which they run; of one name the first owner's counts. */
function order(owners: { owner: string; to?: string; confs: unknown }[], byName: Map<string, PluginRow>): Running[] {
  const found = new Map<string, Running>()
  for (const { owner, to, confs } of owners) {
    for (const [name, conf] of Object.entries(isRecord(confs) ? confs : {})) {
      if (found.has(name)) continue
      const meta = isRecord(conf) && isRecord(conf._meta) ? conf._meta : {}
      const known = byName.get(name)
      found.set(name, { name, owner, to, priority: typeof meta.priority === 'number' ? meta.priority : (known?.priority ?? 0), phases: known?.phases ?? [], isOff: meta.disable === true })
    }
  }
  return [...found.values()].sort((a, b) => b.priority - a.priority)
}

/** Global rules with what they hold. */
function useRules(): { id: string; value: Record<string, unknown> }[] {
  const list = useQuery({
    queryKey: ['objects', 'global_rules', 'way'],
    staleTime: 30_000,
    queryFn: ({ signal }) => json<{ rows: { id: string }[] }>(`/console/v1/objects/global_rules${query({ page_size: RULES_READ })}`, { signal }),
  })
  const ids = (list.data?.rows ?? []).map((row) => row.id)
  const all = useQueries({ queries: ids.map((id) => factsOf('global_rules', id)) })
  return all.flatMap((one, at) => (one.data ? [{ id: ids[at] as string, value: one.data.value }] : []))
}

/** The nodes in service at a place, with their health. */
export function useNodes(place: string | undefined): NodeRow[] | undefined {
  const found = useQuery({
    queryKey: ['nodes', place],
    enabled: place !== undefined,
    refetchInterval: 2000,
    queryFn: nodesOf(place ?? '').queryFn,
  })
  return place === undefined ? [] : found.data?.rows.filter((row) => row.place === place)
}
