/** The traffic of the last minutes as charts of one range, with one cursor. */
import { Anchor, Button, Group, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useLive } from '../../api/live'
import type { Second } from '../../api/types'
import { Series } from '../../chart/series'
import { Loading } from '../../ui/states'
import { useLanguage, useWords } from '../../words/words'
import { moved, type RangeSearch, shapeOf, zoomed } from './range'

const api = getRouteApi('/')

/** The points of a chart: steps of a range until its end, each with its seconds. */
function steps(seconds: Second[], end: number, { span, step }: ReturnType<typeof shapeOf>): Second[][] {
  const groups: Second[][] = Array.from({ length: span / step }, () => [])
  for (const second of seconds) {
    const at = groups.length - 1 - Math.floor((end - second.at) / step)
    groups[at]?.push(second)
  }
  return groups
}

/** Stands among the codes for answers of nodes with 500 and higher. */
const NODE_ERRORS = 'node'

/** Seconds that a rate is taken over, at least: what a gateway that was held up counts in an instant is no rate. */
const RATE_SPAN_S = 1

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)
const spanOf = (seconds: Second[]) => Math.max(RATE_SPAN_S, sum(seconds.map((it) => it.length_ms)) / 1000)
const most = (values: (number | null)[]) => values.reduce((top: number | null, value) => (value === null ? top : Math.max(top ?? 0, value)), null)

export function Charts() {
  const words = useWords()
  const { language } = useLanguage()
  const live = useLive()
  const search = api.useSearch()
  const [at, move] = useState<number>()
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
  const ofNodes = sum(seconds.map((it) => it.node_errors))
  const failed: [string, number][] = [...failures, ...(ofNodes > 0 ? [[NODE_ERRORS, ofNodes] as [string, number]] : [])].sort((a, b) => b[1] - a[1])
  const lastRate = last.length === 0 ? 0 : sum(last.map((it) => it.requests)) / spanOf(last)
  const rateText = words.rateSentence(number(lastRate), number(Math.max(0, ...all.map((it) => it ?? 0))), isPast)
  const ms = (value: number | null) => (value === null ? '–' : words.ms(value))
  const p99 = most(last.map((it) => it.p99_ms))
  const latencyText = p99 === null ? words.noLatency(isPast) : words.latencySentence(ms(most(last.map((it) => it.p50_ms))), ms(p99), isPast)
  const marks = groups.flatMap((group, at) => {
    const before = groups.slice(0, at).findLast((it) => it.length > 0)?.at(-1)?.revision
    const own = group.at(-1)?.revision
    return before !== undefined && own !== undefined && own !== before ? [at / (groups.length - 1)] : []
  })
  const time = (at: number) => (at === 0 ? '' : new Date(at * 1000).toLocaleTimeString(language, { hour: '2-digit', minute: '2-digit' }))
  const exact = (at: number) => new Date((end - (points.length - 1 - at) * shape.step) * 1000).toLocaleTimeString(language)
  const scale = search.log ? 'log' as const : 'linear' as const
  const shared = { from: time(end === 0 ? 0 : end - shape.span), to: time(end), marks, pointName: exact, scale, cursor: { at, move } }
  const perSecond = (value: number) => words.perSecondText(number(value))
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
            {...shared} sentence={rateText} format={perSecond}
            lines={[
              { label: words.allStatuses, color: 'var(--line-1)', values: all, isArea: true },
              { label: '4xx', color: 'var(--line-3)', values: byClass('4xx') },
              { label: '5xx', color: 'var(--line-4)', values: byClass('5xx') },
            ]}
          />
        </section>
        <section className="card">
          <ChartHead title={words.latency} text={latencyText} />
          <Series
            {...shared} sentence={latencyText} format={(value) => `${number(value)} ms`} covers={p99 ?? 0}
            lines={[
              { label: 'p50', color: 'var(--line-1)', values: slow((it) => it.p50_ms) },
              { label: 'p99', color: 'var(--line-2)', values: slow((it) => it.p99_ms) },
            ]}
          />
        </section>
        <section className="card">
          <ChartHead title={words.failures} text={words.failureSentence(sum(failed.map(([, count]) => count)), minutes, isPast)} />
          <Table>
            <Table.Tbody>
              {failed.slice(0, 8).map(([code, count]) => (
                <Table.Tr key={code}>
                  <Table.Td><Anchor component={Link} to="/requests" search={(code === NODE_ERRORS ? { status: '5xx' } : { code }) as never} className={code === NODE_ERRORS ? undefined : 'mono'}>{code === NODE_ERRORS ? words.answeredByNode : code}</Anchor></Table.Td>
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
            lines={[{ label: words.connections, color: 'var(--line-1)', values: open, isArea: true }]}
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
      <Button size="compact-sm" variant={search.log ? 'filled' : 'default'} aria-pressed={search.log === true} onClick={() => void navigate({ search: { ...search, log: search.log ? undefined : true }, replace: true })}>{words.logScale}</Button>
      <Text size="sm" role="status">{search.until === undefined ? words.rangeLast(minutes) : words.rangeUntil(minutes, new Date(search.until * 1000).toLocaleTimeString(language))}</Text>
    </Group>
  )
}

function ChartHead({ title, text }: { title: string; text: string }) {
  return <Stack gap={0} mb="sm"><Title order={2} size="h5">{title}</Title><Text size="sm" c="dimmed">{text}</Text></Stack>
}
