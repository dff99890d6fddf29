/** The path of requests through the whole gateway, live: the busiest and the most failing routes, where they lead, and how each part does. */
import { Anchor, Text, Title } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { type Rate, useRates } from '../../api/rates'
import type { NodeRow, Overview } from '../../api/types'
import { Figures, type FiguresOf, Refused } from '../../flow/figures'
import { isDown, listenersOf, type RoutePath, useRoutePaths } from '../../flow/object-path'
import type { RequestSearch } from '../../routes'
import { useWords } from '../../words/words'

/** Routes that are drawn, at most; those that fail come first. */
const ROUTES = 6

/** Nodes of an upstream that are drawn; it is said how many there are. */
const NODES = 4

/** The routes to draw: those that fail, and then the busiest. */
export function chosenOf(failing: Rate[], busiest: Rate[]): Rate[] {
  const all = new Map<string, Rate>()
  for (const row of failing) if (row.failed_rate > 0) all.set(row.id, row)
  for (const row of busiest) if (row.rate > 0 && !all.has(row.id)) all.set(row.id, row)
  return [...all.values()].slice(0, ROUTES)
}

export function Traffic({ data, all }: { data: Overview; all: FiguresOf | undefined }) {
  const words = useWords()
  const busiest = useRates('routes', undefined).data?.rows ?? []
  const failing = useRates('routes', undefined, 'failures').data?.rows ?? []
  const chosen = chosenOf(failing, busiest)
  const paths = useRoutePaths(chosen.map(({ id }) => id))
  const upstreams = useRates('upstreams', paths.flatMap(({ place }) => (place?.startsWith('upstreams/') ? place.slice(10) : [])))
  const nodes = useRates('nodes', [...new Set(paths.flatMap((path) => path.nodes.slice(0, NODES).flatMap((node) => node.address ?? [])))])
  const rateOf = (rows: Rate[] | undefined, id: string) => rows?.find((row) => row.id === id)
  if (paths.length === 0) return null
  const listeners = listenersOf(data.listeners)
  return (
    <section className="card" aria-labelledby="traffic">
      <Title order={2} size="h5" id="traffic">{words.trafficNow}</Title>
      <Text size="sm" c="dimmed" mb="sm">{words.trafficHelp}</Text>
      <div className="map">
        <div className="map-side">
          <Box title={words.listens} figures={all} search={{}}>
            {listeners.map(({ name, addresses }) => <Text key={name} size="xs" c="dimmed" className="mono">{name} {addresses.join(' ')}</Text>)}
          </Box>
        </div>
        <ul className="map-rows">
          {paths.map((path) => (
            <Path key={path.id} path={path} route={rateOf(chosen, path.id)} upstream={rateOf(upstreams.data?.rows, path.place?.slice(10) ?? '')} nodeRates={nodes.data?.rows ?? []} />
          ))}
        </ul>
      </div>
      <Text size="sm" mt="sm"><Anchor component={Link} to="/objects/routes">{words.allRoutes(data.routes_in_service)}</Anchor></Text>
    </section>
  )
}

function Path({ path, route, upstream, nodeRates }: { path: RoutePath; route: Rate | undefined; upstream: Rate | undefined; nodeRates: Rate[] }) {
  const words = useWords()
  const { place, nodes } = path
  const id = place?.startsWith('upstreams/') ? place.slice(10) : undefined
  const shown = nodes.slice(0, NODES)
  return (
    <li className="map-row">
      <Box title={<Anchor component={Link} to={`/objects/routes/${encodeURIComponent(path.id)}`}>{path.name}</Anchor>} figures={route} search={{ route: path.id }}>
        {path.plugins.length > 0 && <Text size="xs" c="dimmed">{path.plugins.slice(0, 3).join(' · ')}{path.plugins.length > 3 && ` +${path.plugins.length - 3}`}</Text>}
        {route?.refusals?.map((one) => <div key={one.plugin}><Text size="xs" c="dimmed">{one.plugin}</Text><Refused of={one} route={path.id} all={route.rate} /></div>)}
      </Box>
      <Box title={id !== undefined ? <Anchor component={Link} to={`/objects/upstreams/${encodeURIComponent(id)}`}>{nodes[0]?.name ?? id}</Anchor> : place === undefined ? words.noUpstream : words.ownUpstream} figures={upstream ?? route} search={{ route: path.id }} isQuiet={place === undefined}>
        {nodes.length > 0 && <Text size="xs" c="dimmed">{words.nodesInline(nodes.length)}</Text>}
      </Box>
      <div className="map-nodes">
        {shown.map((node) => <NodeBox key={`${node.host}:${node.port}`} node={node} rate={nodeRates.find((row) => row.id === node.address)} />)}
        {nodes.length > shown.length && <Anchor component={Link} to="/nodes" search={{ q: place } as never} size="xs">{words.nodesInline(nodes.length)}</Anchor>}
      </div>
    </li>
  )
}

function NodeBox({ node, rate }: { node: NodeRow; rate: Rate | undefined }) {
  const words = useWords()
  const bad = isDown(node)
  const name = `${node.host}:${node.port}`
  return (
    <div className={bad ? 'map-node bad' : 'map-node'} title={node.reason}>
      <span className="mono"><span aria-hidden className={bad ? 'dot bad' : 'dot good'}>{bad ? '■' : '●'}</span> <Anchor component={Link} to="/nodes" search={{ q: name } as never}>{name}</Anchor><span className="unseen"> {bad ? words.unhealthy : words.healthy}</span></span>
      <Figures of={rate} search={{ q: node.address ?? name }} />
    </div>
  )
}

interface BoxProps { title: React.ReactNode; figures: FiguresOf | undefined; search: RequestSearch; isQuiet?: boolean; children?: React.ReactNode }

function Box({ title, figures, search, isQuiet, children }: BoxProps) {
  const isBad = figures !== undefined && figures.failed_rate > 0
  return (
    <div className={isBad && !isQuiet ? 'map-box bad' : 'map-box'}>
      <Text fw={600} size="sm" className="wrap" component="div">{title}</Text>
      {children}
      {!isQuiet && <Figures of={figures} search={search} />}
    </div>
  )
}
