/** The gateway at a glance: whether it is well, and what needs a hand. It decides nothing. */
import { Anchor, Button, Group, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useLive, useOverview } from '../../api/live'
import { useRates } from '../../api/rates'
import type { Overview as Data, Second } from '../../api/types'
import { Series } from '../../chart/series'
import { Findings } from '../../ui/findings'
import { ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { moved, type RangeSearch, shapeOf, zoomed } from './range'

const api = getRouteApi('/')

export function Overview() {
  const words = useWords()
  const overview = useOverview()
  const { data } = overview
  return (
    <>
      <ScreenHead title={words.overview} note={data && <span lang="en">{`${data.hostname} · ${data.source}`}</span>} />
      {overview.isError && <ErrorBox error={overview.error} retry={() => void overview.refetch()} />}
      {data ? (
        <Stack gap="md">
          <NeedsHand data={data} />
          <Charts />
          <Busiest />
          <Facts data={data} />
        </Stack>
      ) : !overview.isError && <Loading rows={10} />}
    </>
  )
}

function NeedsHand({ data }: { data: Data }) {
  const words = useWords()
  const { findings } = data
  return (
    <section className="card" aria-labelledby="hand">
      <Title order={2} size="h5" id="hand" mb={findings.length > 0 ? 'xs' : 0}>{findings.length > 0 ? words.needsHand : <Group gap="xs"><StateBadge state="good" label={words.allWell} /></Group>}</Title>
      <Findings findings={findings} />
    </section>
  )
}

/** The routes that take the most requests, and those that fail most. */
function Busiest() {
  const words = useWords()
  const busiest = useRates('routes', undefined).data?.rows.filter((row) => row.rate > 0).slice(0, 5) ?? []
  const failing = useRates('routes', undefined, 'failures').data?.rows.filter((row) => row.failed_rate > 0).slice(0, 5) ?? []
  if (busiest.length === 0) return null
  const list = (title: string, rows: { id: string; text: string }[]) => (
    <section className="card">
      <Title order={2} size="h5" mb="xs">{title}</Title>
      {rows.map((row) => (
        <Group key={row.id} justify="space-between" gap="xs" wrap="nowrap"><Anchor component={Link} to={`/objects/routes/${encodeURIComponent(row.id)}`} size="sm" className="wrap">{row.id}</Anchor><Text size="sm" className="numbers">{row.text}</Text></Group>
      ))}
    </section>
  )
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      {list(words.busiest, busiest.map((row) => ({ id: row.id, text: words.perSecond(row.rate) })))}
      {failing.length > 0 && list(words.failingMost, failing.map((row) => ({ id: row.id, text: words.failing(row.failed_rate) })))}
    </SimpleGrid>
  )
}

/** The points of a chart: steps of a range until its end, each with its seconds. */
function steps(seconds: Second[], end: number, { span, step }: ReturnType<typeof shapeOf>): Second[][] {
  const groups: Second[][] = Array.from({ length: span / step }, () => [])
  for (const second of seconds) {
    const at = groups.length - 1 - Math.floor((end - second.at) / step)
    groups[at]?.push(second)
  }
  return groups
}

/** Seconds that a rate is taken over, at least: what a gateway that was held up counts in an instant is no rate. */
const RATE_SPAN_S = 1

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
const spanOf = (seconds: Second[]) => Math.max(RATE_SPAN_S, sum(seconds.map((it) => it.length_ms)) / 1000)
const most = (values: (number | null)[]) => values.reduce((top: number | null, value) => (value === null ? top : Math.max(top ?? 0, value)), null)

function Charts() {
  const words = useWords()
  const { language } = useLanguage()
  const live = useLive()
  const search = api.useSearch()
  // What has not arrived yet is not told as if there had been nothing.
  if (live.data === undefined && !live.isError) return <Loading rows={8} />
  const known = live.data ?? []
  const now = known.at(-1)?.at ?? 0
  const isPast = search.until !== undefined
  const end = search.until ?? now
  const shape = shapeOf(search)
  const minutes = shape.span / 60
  const seconds = known.filter(({ at }) => at > end - shape.span && at <= end)
  const points = steps(seconds, end, shape)
  // The newest step of now is not over, and would look like a fall.
  const groups = isPast ? points : points.slice(0, -1)
  const rate = (pick: (second: Second) => number) =>
    groups.map((group) => (group.length === 0 ? null : sum(group.map(pick)) / spanOf(group)))
  const slow = (pick: (second: Second) => number | null) => groups.map((group) => (group.length === 0 ? null : most(group.map(pick))))
  const number = (value: number) => new Intl.NumberFormat(language, { notation: 'compact', maximumSignificantDigits: 3 }).format(value)
  const all = rate((it) => it.requests)
  const last = seconds.slice(-10)
  const failures = new Map<string, number>()
  for (const second of seconds) for (const [code, count] of Object.entries(second.failures)) failures.set(code, (failures.get(code) ?? 0) + count)
  const failed = [...failures].sort((a, b) => b[1] - a[1])
  const lastRate = last.length === 0 ? 0 : sum(last.map((it) => it.requests)) / spanOf(last)
  const rateText = words.rateSentence(number(lastRate), number(Math.max(0, ...all.map((it) => it ?? 0))), isPast)
  const ms = (value: number | null) => (value === null ? '–' : words.ms(value))
  const latencyText = words.latencySentence(ms(most(last.map((it) => it.p50_ms))), ms(most(last.map((it) => it.p99_ms))), isPast)
  const marks = groups.flatMap((group, at) => {
    const before = groups.slice(0, at).findLast((it) => it.length > 0)?.at(-1)?.revision
    const own = group.at(-1)?.revision
    return before !== undefined && own !== undefined && own !== before ? [at / (groups.length - 1)] : []
  })
  const time = (at: number) => (at === 0 ? '' : new Date(at * 1000).toLocaleTimeString(language, { hour: '2-digit', minute: '2-digit' }))
  const exact = (at: number) => new Date((end - (points.length - 1 - at) * shape.step) * 1000).toLocaleTimeString(language)
  const shared = { from: time(end === 0 ? 0 : end - shape.span), to: time(end), marks, pointName: exact }
  const open = slow((it) => it.connections)
  const openText = words.connectionsSentence(seconds.at(-1)?.connections ?? 0, Math.max(0, ...seconds.map((it) => it.connections)), isPast)
  const hasTraffic = seconds.some((it) => it.requests > 0)
  const byClass = (name: string) => rate((it) => it.classes[name] ?? 0)
  return (
    <Stack gap="xs">
      <RangeBar search={search} now={now} />
      <SimpleGrid cols={{ base: 1, lg: 2 }}>
        <section className="card">
          <ChartHead title={words.rate} text={hasTraffic ? rateText : words.noTraffic(minutes, isPast)} />
          <Series
            {...shared} sentence={rateText} format={number}
            lines={[
              { label: words.allStatuses, color: 'var(--mantine-color-harbour-6)', values: all, isArea: true },
              { label: '4xx', color: 'var(--mantine-color-yellow-6)', values: byClass('4xx') },
              { label: '5xx', color: 'var(--mantine-color-red-6)', values: byClass('5xx') },
            ]}
          />
        </section>
        <section className="card">
          <ChartHead title={words.latency} text={latencyText} />
          <Series
            {...shared} sentence={latencyText} format={(value) => `${number(value)} ms`}
            lines={[
              { label: 'p50', color: 'var(--mantine-color-harbour-6)', values: slow((it) => it.p50_ms) },
              { label: 'p99', color: 'var(--mantine-color-grape-6)', values: slow((it) => it.p99_ms) },
            ]}
          />
        </section>
        <section className="card">
          <ChartHead title={words.failures} text={words.failureSentence(sum(failed.map(([, count]) => count)), minutes, isPast)} />
          <Table>
            <Table.Tbody>
              {failed.slice(0, 8).map(([code, count]) => (
                <Table.Tr key={code}>
                  <Table.Td><Anchor component={Link} to="/requests" search={{ code } as never} className="mono">{code}</Anchor></Table.Td>
                  <Table.Td className="numbers">{count.toLocaleString(language)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </section>
        <section className="card">
          <ChartHead title={words.connections} text={openText} />
          <Series
            {...shared} sentence={openText} format={number}
            lines={[{ label: words.connections, color: 'var(--mantine-color-harbour-6)', values: open, isArea: true }]}
          />
        </section>
      </SimpleGrid>
    </Stack>
  )
}

/** The range of all charts: said, moved and zoomed, by button and by key. */
function RangeBar({ search, now }: { search: RangeSearch; now: number }) {
  const words = useWords()
  const { language } = useLanguage()
  const navigate = api.useNavigate()
  const minutes = shapeOf(search).span / 60
  // A button that leads nowhere keeps the focus.
  const button = (sign: string, label: string, key: object, to: RangeSearch | undefined) => (
    <Button
      {...key} size="compact-sm" variant="default" aria-label={label} title={label} aria-disabled={to === undefined} data-disabled={to === undefined || undefined}
      onClick={() => to && void navigate({ search: to, replace: true })}
    >{sign}</Button>
  )
  return (
    <Group gap="xs" role="group" aria-label={words.range}>
      {button('←', words.rangeEarlier, { 'data-earlier': true }, now > 0 ? moved(search, -1, now) : undefined)}
      {button('→', words.rangeLater, { 'data-later': true }, moved(search, 1, now))}
      {button('−', words.rangeWider, { 'data-wider': true }, zoomed(search, -1, now))}
      {button('+', words.rangeCloser, { 'data-closer': true }, zoomed(search, 1, now))}
      <Text size="sm" role="status">{search.until === undefined ? words.rangeLast(minutes) : words.rangeUntil(minutes, new Date(search.until * 1000).toLocaleTimeString(language))}</Text>
    </Group>
  )
}

function ChartHead({ title, text }: { title: string; text: string }) {
  return <Stack gap={0} mb="sm"><Title order={2} size="h5">{title}</Title><Text size="sm" c="dimmed">{text}</Text></Stack>
}

function Facts({ data }: { data: Data }) {
  const words = useWords()
  const { language } = useLanguage()
  const listens = Object.entries(data.listeners).filter(([, all]) => all.length > 0)
  const counts = Object.entries(data.objects).filter(([, count]) => count > 0)
  const rows: [string, React.ReactNode][] = [
    [words.inService, `${words.revision(data.revision)} · ${words.routes} ${data.routes_in_service.toLocaleString(language)}`],
    [words.nodes, <Anchor key="n" component={Link} to="/nodes">{words.nodesHealthy(data.nodes.healthy, data.nodes.total)}</Anchor>],
    [words.registry, data.registry ? <Anchor key="r" component={Link} to="/registry">{words.instancesHealthy(data.registry.healthy, data.registry.instances)}</Anchor> : words.registryOff],
    [words.gateway, counts.map(([kind, count], at) => (
      <span key={kind}>{at > 0 && ' · '}<Anchor component={Link} to={`/objects/${kind}`}>{words[kind as 'routes'] ?? kind} {count.toLocaleString(language)}</Anchor></span>
    ))],
    [words.listens, <span key="l" className="mono">{listens.map(([name, all]) => `${name} ${all.join(' ')}`).join(' · ')}</span>],
    [words.version, `${data.version}`],
    [words.started, <Time key="s" at={data.started_at} stands />],
  ]
  return (
    <section className="card">
      <Table variant="vertical" withRowBorders={false}>
        <Table.Tbody>
          {rows.map(([name, value]) => <Table.Tr key={name}><Table.Th w={150} fw={500} c="dimmed" bg="transparent">{name}</Table.Th><Table.Td>{value}</Table.Td></Table.Tr>)}
        </Table.Tbody>
      </Table>
    </section>
  )
}
