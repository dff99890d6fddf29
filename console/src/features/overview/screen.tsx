/** The gateway at a glance: what is wrong first, then where requests go, then how many. It decides nothing. */
import { Anchor, Group, SimpleGrid, Stack, Text, Title } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { useLive, useOverview } from '../../api/live'
import type { Overview as Data, Second } from '../../api/types'

import { Findings } from '../../ui/findings'
import { healthOf } from '../../ui/health'
import { useLayout } from '../../ui/layout'
import { ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { Charts } from './charts'
import { Traffic } from './traffic'

/** Only a gateway without routes needs it. */
const Guide = lazy(async () => ({ default: (await import('../start/guide')).Guide }))

/** Seconds over which the figures of now are taken. */
const NOW_S = 10

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
const most = (values: (number | null)[]) => Math.max(0, ...values.map((value) => value ?? 0))

export function Overview() {
  const words = useWords()
  const overview = useOverview()
  const { data } = overview
  return (
    <>
      <ScreenHead title={words.overview} note={data && <span lang="en">{`${data.hostname} · ${data.source}`}</span>} />
      {overview.isError && <ErrorBox error={overview.error} retry={() => void overview.refetch()} />}
      {data ? <Content data={data} /> : !overview.isError && <Loading rows={10} />}
    </>
  )
}

function Content({ data }: { data: Data }) {
  const live = useLive().data ?? []
  const hasTraffic = live.some((second) => second.requests > 0)
  const now = nowOf(live)
  const { guide } = useLayout()
  const isGuided = guide === 'open' || (guide === 'auto' && (data.objects.routes ?? 0) === 0 && !hasTraffic)
  return (
    <Stack gap="md">
      <Wrong data={data} />
      {isGuided && <Suspense fallback={<Loading rows={4} />}><Guide /></Suspense>}
      {hasTraffic && <Tiles data={data} now={now} />}
      {hasTraffic && <Traffic data={data} all={now && { rate: now.rate, failed_rate: now.failedRate, p99_ms: now.p99 }} />}
      {(hasTraffic || !isGuided) && <Charts />}
      <Facts data={data} />
    </Stack>
  )
}

interface Now { rate: number; failedRate: number; p50: number | null; p99: number | null; connections: number }

/** What the last seconds were like. */
export function nowOf(live: Second[]): Now | undefined {
  const last = live.slice(-NOW_S)
  if (last.length === 0) return undefined
  const seconds = Math.max(1, sum(last.map((second) => second.length_ms)) / 1000)
  const p99 = most(last.map((second) => second.p99_ms))
  const p50 = most(last.map((second) => second.p50_ms))
  const isIdle = last.every((second) => second.p99_ms === null)
  return {
    rate: sum(last.map((second) => second.requests)) / seconds,
    failedRate: sum(last.map((second) => second.classes['5xx'] ?? 0)) / seconds,
    p50: isIdle ? null : p50, p99: isIdle ? null : p99, connections: last.at(-1)?.connections ?? 0,
  }
}

/** What is wrong, or that nothing is; green only where no request fails. */
function Wrong({ data }: { data: Data }) {
  const words = useWords()
  const { findings, failed_recently: failing } = data
  const { state } = healthOf(findings, failing)
  const isQuiet = findings.length === 0
  return (
    <section className={`card findings ${state}`} aria-labelledby="hand">
      <Group justify="space-between" className="findings-head" gap="sm">
        <Title order={2} size="h5" id="hand">{isQuiet && failing === 0 ? <StateBadge state="good" label={words.allWell} /> : words.needsHand}</Title>
        {failing > 0 && <Anchor component={Link} to="/requests" search={{ status: '5xx' } as never} size="sm" className="pill-link">{words.failuresNow(failing)}</Anchor>}
      </Group>
      <Findings findings={findings} />
    </section>
  )
}

function Tiles({ data, now }: { data: Data; now: FiguresNow }) {
  const words = useWords()
  const { language } = useLanguage()
  const number = (value: number) => new Intl.NumberFormat(language, { notation: 'compact', maximumSignificantDigits: 3 }).format(value)
  const share = now && now.rate > 0 ? (100 * now.failedRate) / now.rate : 0
  const percent = new Intl.NumberFormat(language, { maximumFractionDigits: share < 1 ? 2 : 1 }).format(share)
  const ms = (value: number | null | undefined) => (value === null || value === undefined ? ['–', ''] : [number(value), 'ms'])
  const tiles: [string, string[], string, boolean?][] = [
    [words.rate, [number(now?.rate ?? 0), '/s'], '/requests'],
    [words.failingShare, [percent, '%'], '/requests', share > 0],
    [words.medianLatency, ms(now?.p50), '/requests'],
    [words.p99Latency, ms(now?.p99), '/requests'],
    [words.nodesServing, [number(data.nodes.healthy), `/ ${number(data.nodes.total)}`], '/nodes', data.nodes.healthy < data.nodes.total],
  ]
  return (
    <SimpleGrid cols={{ base: 2, sm: 3, lg: 5 }} spacing="sm">
      {tiles.map(([label, [value, unit], to, isFailing]) => (
        <Link key={label} to={to} search={(isFailing && to === '/requests' ? { status: '5xx' } : {}) as never} className={isFailing ? 'card tile failing' : 'card tile'}>
          <Text size="sm" c="dimmed">{label}</Text>
          <b>{value}<small lang="en">{unit}</small></b>
        </Link>
      ))}
    </SimpleGrid>
  )
}

type FiguresNow = ReturnType<typeof nowOf>

function Facts({ data }: { data: Data }) {
  const words = useWords()
  const { language } = useLanguage()
  const listens = Object.entries(data.listeners).filter(([, all]) => all.length > 0)
  const counts = Object.entries(data.objects).filter(([, count]) => count > 0)
  const rows: [string, React.ReactNode][] = [
    [words.inService, `${words.revision(data.revision)} · ${words.routesCount(data.routes_in_service)}`],
    [words.nodes, <Anchor key="n" component={Link} to="/nodes">{words.nodesHealthy(data.nodes.healthy, data.nodes.total)}</Anchor>],
    [words.registry, data.registry ? <Anchor key="r" component={Link} to="/registry">{words.naming.summary({ ...data.registry, total: data.registry.instances })}</Anchor> : words.registryOff],
    [words.version, data.version],
    [words.started, <Time key="s" at={data.started_at} stands />],
    [words.listens, <span key="l" className="mono">{listens.map(([name, all]) => `${name} ${all.join(' ')}`).join(' · ')}</span>],
    [words.objectsTitle, counts.map(([kind, count], at) => (
      <span key={kind}>{at > 0 && ' · '}<Anchor component={Link} to={`/objects/${kind}`}>{words[kind as 'routes'] ?? kind} {count.toLocaleString(language)}</Anchor></span>
    ))],
  ]
  return (
    <section className="card">
      <dl className="facts">{rows.map(([name, value]) => <div key={name} className={name === words.listens || name === words.objectsTitle ? 'wide' : undefined}><dt>{name}</dt><dd>{value}</dd></div>)}</dl>
    </section>
  )
}
