/** How an object did over the last 15 minutes: requests and failures, durations, and the same of its nodes. */
import { SimpleGrid, Table, Text, Title } from '@mantine/core'
import { useState } from 'react'
import { type History, type Rated, useHistories, useRates } from '../../api/rates'
import { type Line, Series } from '../../chart/series'
import { Figures } from '../../flow/figures'
import { NodeState } from '../../ui/node-state'
import { Scroll } from '../../ui/scroll'
import { useLanguage, useWords } from '../../words/words'
import { useNodes } from './way'

/** Nodes with lines of their own; more cannot be told apart. */
const NODE_LINES = 6

const COLORS = ['var(--line-1)', 'var(--line-2)', 'var(--line-3)', 'var(--line-5)', 'var(--line-4)', 'var(--line-6)']

export function Live({ kind, id, place }: { kind: Rated; id: string; place: string | undefined }) {
  const words = useWords()
  const { data } = useHistories(kind, [id])
  const row = data?.rows[0]
  if (data === undefined) return null
  return (
    <section aria-labelledby="live">
      <Title order={2} size="h4" mb="xs" id="live">{words.live}</Title>
      {row === undefined ? <Text size="sm" c="dimmed">{words.noRequestsYet}</Text> : <Charts history={row.history} total={words.gatewayRates(row.rate, row.requests, row.failed)} hasDurations={kind === 'routes'} />}
      {place !== undefined && <Nodes place={place} />}
    </section>
  )
}

function useAxis(at: number[]) {
  const { language } = useLanguage()
  const name = (point: number) => new Date((at[point] ?? 0) * 1000).toLocaleTimeString(language)
  const short = (point: number) => (at.length === 0 ? '' : new Date((at[point] ?? 0) * 1000).toLocaleTimeString(language, { hour: '2-digit', minute: '2-digit' }))
  return { pointName: name, from: short(0), to: short(at.length - 1) }
}

/** Values of axes and of points, with their units. */
function useUnits() {
  const words = useWords()
  const { language } = useLanguage()
  const number = (value: number) => new Intl.NumberFormat(language, { notation: 'compact', maximumSignificantDigits: 3 }).format(value)
  return { perSecond: (value: number) => words.perSecondText(number(value)), ms: (value: number) => `${number(value)} ms` }
}

function Charts({ history, total, hasDurations }: { history: History; total: string; hasDurations: boolean }) {
  const words = useWords()
  const axis = useAxis(history.at)
  const [at, move] = useState<number>()
  const { perSecond, ms } = useUnits()
  const shared = { ...axis, cursor: { at, move } }
  const p99 = history.p99_ms.findLast((value) => value !== null)
  const latency = words.latencyNow(p99 === null || p99 === undefined ? '–' : words.ms(p99))
  return (
    <SimpleGrid cols={{ base: 1, lg: hasDurations ? 2 : 1 }}>
      <div className="card">
        <Title order={3} size="h5">{words.rate}</Title>
        <Text size="sm" c="dimmed" mb="sm">{total}</Text>
        <Series {...shared} sentence={total} format={perSecond} lines={[
          { label: words.allStatuses, color: 'var(--line-1)', values: history.rate, isArea: true },
          { label: words.failed, color: 'var(--line-4)', values: history.failed_rate },
        ]} />
      </div>
      {hasDurations && (
        <div className="card">
          <Title order={3} size="h5">{words.latency}</Title>
          <Text size="sm" c="dimmed" mb="sm">{latency}</Text>
          <Series {...shared} sentence={latency} format={ms} lines={[
            { label: 'p50', color: 'var(--line-1)', values: history.p50_ms },
            { label: 'p99', color: 'var(--line-2)', values: history.p99_ms },
          ]} />
        </div>
      )}
    </SimpleGrid>
  )
}

/** The nodes of an upstream: a line each, and a row each. */
function Nodes({ place }: { place: string }) {
  const words = useWords()
  const nodes = useNodes(place) ?? []
  const addresses = nodes.flatMap((node) => node.address ?? [])
  const rates = useRates('nodes', addresses).data?.rows ?? []
  const busiest = rates.slice(0, NODE_LINES).map((row) => row.id)
  const histories = useHistories('nodes', busiest).data?.rows ?? []
  const longest = histories.reduce((most, row) => (row.history.at.length > most.length ? row.history.at : most), [] as number[])
  const axis = useAxis(longest)
  const [at, move] = useState<number>()
  const { perSecond, ms } = useUnits()
  if (nodes.length === 0) return null
  // A node that came later has its points at the end.
  const lines = (pick: (history: History) => (number | null)[]): Line[] => busiest.flatMap((id, index) => {
    const row = histories.find((one) => one.id === id)
    if (row === undefined) return []
    const values = pick(row.history)
    return [{ label: id, color: COLORS[index] as string, values: [...Array.from({ length: longest.length - values.length }, () => null), ...values] }]
  })
  const shared = { ...axis, cursor: { at, move } }
  return (
    <>
      {longest.length > 1 && (
        <SimpleGrid cols={{ base: 1, lg: 2 }} mt="md">
          <div className="card"><Title order={3} size="h5" mb="sm">{words.nodeRates}</Title><Series {...shared} sentence={words.nodeRates} format={perSecond} lines={lines((history) => history.rate)} /></div>
          <div className="card"><Title order={3} size="h5" mb="sm">{words.nodeLatency}</Title><Series {...shared} sentence={words.nodeLatency} format={ms} lines={lines((history) => history.p99_ms)} /></div>
        </SimpleGrid>
      )}
      <Title order={3} size="h5" mt="md" mb="xs">{words.nodes}</Title>
      <Scroll>
        <Table>
          <Table.Thead><Table.Tr><Table.Th>{words.state}</Table.Th><Table.Th>{words.node}</Table.Th><Table.Th className="numbers">{words.weight}</Table.Th><Table.Th>{words.rateShort}</Table.Th><Table.Th>{words.reason}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {nodes.slice(0, 50).map((node) => (
              <Table.Tr key={`${node.host}:${node.port}`}>
                <Table.Td><NodeState row={node} /></Table.Td>
                <Table.Td className="mono whole">{node.host}:{node.port}</Table.Td>
                <Table.Td className="numbers">{node.weight}</Table.Td>
                <Table.Td><Figures of={rates.find((row) => row.id === node.address)} search={{ q: node.address ?? node.host }} /></Table.Td>
                <Table.Td><Text size="sm" lang="en">{node.reason}</Text></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Scroll>
    </>
  )
}
