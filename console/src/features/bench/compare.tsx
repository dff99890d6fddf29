/** Two or more measurements laid over each other, whatever they measured. */
import { Alert, Anchor, Group, Stack, Table, Text, Title } from '@mantine/core'
import { useQueries, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { json, query } from '../../api/client'
import { Series } from '../../chart/series'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { COMPARED, COMPARED_MAX, type Compared, difference, padded, percent, RUNS_MIN, short, unlike } from './figures'
import { Outcomes } from './outcomes'
import type { Figures, Run } from './queries'

const api = getRouteApi('/bench/compare')

/** Colours of the lines, told apart by people who see no red or green as well. */
const COLORS: string[] = ['var(--mantine-color-harbour-7)', 'var(--mantine-color-orange-7)', 'var(--mantine-color-teal-7)', 'var(--mantine-color-grape-6)']

export function BenchCompare() {
  const words = useWords()
  const { ids = '' } = api.useSearch()
  const wanted = ids.split(',').filter((id: string) => id !== '').slice(0, COMPARED_MAX)
  const found = useQueries({
    queries: wanted.map((id) => ({ queryKey: ['bench', id], queryFn: ({ signal }: { signal: AbortSignal }) => json<Run>(`/console/v1/bench/runs/${id}`, { signal }) })),
  })
  const failed = found.find((one) => one.isError)
  const runs = found.flatMap((one) => one.data ?? [])
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/bench">{words.bench}</Anchor> / {words.compare}</Text>
      <ScreenHead title={words.compare} note={words.compareNote} />
      {wanted.length < 2 ? <Empty>{words.compareHelp}</Empty> : failed ? <ErrorBox error={failed.error} retry={() => void failed.refetch()} /> : runs.length < wanted.length ? <Loading /> : <Overlay runs={runs} />}
    </>
  )
}

function Overlay({ runs }: { runs: Run[] }) {
  const words = useWords()
  const { language } = useLanguage()
  const [first, ...others] = runs as [Run, ...Run[]]
  const lines = named(runs)
  const figures = runs.map((run) => run.cases?.[0])
  const number = (value: number) => short(value, language)
  const curves = padded(figures.map((one) => one?.curve?.map(([, ms]) => ms) ?? []))
  const percents = figures.map((one) => one?.curve ?? []).sort((one, other) => other.length - one.length)[0] ?? []
  const rates = padded(runs.map((run) => run.series?.flat().map(([, rate]) => rate) ?? []))
  const unlikes = others.map((run) => unlike(first, run))
  const isSingle = figures.some((one) => one !== undefined && one.runs < RUNS_MIN)
  const line = (values: (number | null)[][]) => runs.map((_, at) => ({ label: lines[at] as string, color: COLORS[at] as string, values: values[at] ?? [] }))
  return (
    <Stack gap="lg">
      {unlikes.some((it) => it.target) && <Alert color="blue" variant="light" data-unlike>{words.unlikeTargets}</Alert>}
      {unlikes.some((it) => it.load) && <Alert color="yellow" variant="light">{words.unlikeLoads}</Alert>}
      {isSingle && <Alert color="yellow" variant="light" data-single>{words.singleRun}</Alert>}
      <section className="card">
        <Title order={2} size="h4" mb="xs">{words.figures}</Title>
        <Scroll>
          <Table>
            <Table.Thead>
              <Table.Tr><Table.Th /><Table.Th className="numbers">{words.rateShort}</Table.Th><Table.Th className="numbers">p50</Table.Th><Table.Th className="numbers">p99</Table.Th><Table.Th className="numbers">{words.meanTime}</Table.Th><Table.Th className="numbers">{words.failedCount}</Table.Th><Table.Th>{words.thresholds}</Table.Th></Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {runs.map((run, at) => (
                <Table.Tr key={run.id} data-run={run.id}>
                  <Table.Th scope="row" fw={500}><Name run={run} color={COLORS[at] as string} /></Table.Th>
                  {COMPARED.map((figure) => <Table.Td key={figure} className="numbers"><Value figure={figure} before={at === 0 ? undefined : figures[0]} own={figures[at]} /></Table.Td>)}
                  <Table.Td className="numbers">{figures[at] ? number(figures[at].failed) : '–'}</Table.Td>
                  <Table.Td><Outcomes run={run} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
        <Text size="xs" c="dimmed" mt="xs">{words.changesAgainst(lines[0] as string)}</Text>
      </section>
      {curves.some((curve) => curve.length > 1) && (
        <section className="card">
          <Title order={2} size="h4" mb="xs">{words.percentiles}</Title>
          <Series lines={line(curves)} sentence={words.percentilesSentence} from="p0" to={percents.length > 0 ? `p${percents.at(-1)?.[0]}` : ''} pointName={(at) => `p${percents[at]?.[0] ?? ''}`} format={(value) => `${number(value)} ms`} />
        </section>
      )}
      {rates.some((rate) => rate.length > 1) && (
        <section className="card">
          <Title order={2} size="h4" mb="xs">{words.rateShort}</Title>
          <Series lines={line(rates)} sentence={words.ratesSentence} from="0" to={words.seconds(Math.max(...rates.map((rate) => rate.length)))} pointName={(at) => words.seconds(at + 1)} format={number} />
        </section>
      )}
      <InWords runs={runs} />
    </Stack>
  )
}

/** Names of measurements; equal ones are numbered. */
function named(runs: Run[]): string[] {
  return runs.map((run, at) => {
    const same = runs.filter((other) => other.name === run.name)
    return same.length > 1 ? `${run.name} #${runs.slice(0, at + 1).filter((other) => other.name === run.name).length}` : run.name
  })
}

function Name({ run, color }: { run: Run; color: string }) {
  const words = useWords()
  return (
    <Group gap="xs" wrap="nowrap" align="flex-start">
      <i aria-hidden style={{ background: color, width: 10, height: 10, borderRadius: 3, flex: 'none', marginTop: 6 }} />
      <div>
        <Anchor component={Link} to={`/bench/${run.id}`}>{run.name}</Anchor>
        {run.name !== run.url && <Text size="xs" c="dimmed" className="mono">{run.url}</Text>}
        <Text size="xs" c="dimmed">{words.loadText(run.connections, run.seconds, run.repeat)}{run.rate !== null && ` · ${run.rate}/s`} · <Time at={run.at_ms / 1000} /></Text>
      </div>
    </Group>
  )
}

/** A figure, and its change against the first measurement. */
function Value({ figure, before, own }: { figure: Compared; before: Figures | undefined; own: Figures | undefined }) {
  const words = useWords()
  const { language } = useLanguage()
  const range = own?.[figure]
  if (!own || !range) return <>–</>
  const inUnit = figure === 'goodput' ? words.perSecondText : words.msText
  const changed = before && difference(figure, before, own)
  const tone = changed?.verdict === 'better' ? 'teal' : changed?.verdict === 'worse' ? 'red' : 'dimmed'
  return (
    <>
      {inUnit(short(range.value, language))}
      {changed && <Text size="xs" c={tone} fw={600} data-verdict={changed.verdict}>{percent(changed.change)} {words.verdicts[changed.verdict]}</Text>}
    </>
  )
}

/** The text of the load generator about the first measurement and each other, for those who ask. */
function InWords({ runs }: { runs: Run[] }) {
  const words = useWords()
  const [isOpen, setOpen] = useState(false)
  const [before, ...others] = runs.map((run) => run.id)
  const found = useQuery({
    queryKey: ['bench-compare', before, ...others],
    enabled: isOpen,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => Promise.all(others.map((after) => json<{ text: string }>(`/console/v1/bench/compare${query({ before, after })}`, { signal }))),
  })
  return (
    <details className="past" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary><Text span size="sm">{words.compareText}</Text></summary>
      {found.isError && <ErrorBox error={found.error} />}
      {found.data?.map(({ text }, at) => <pre key={others[at]} className="code" tabIndex={0} lang="en" aria-label={words.compare}>{text}</pre>)}
    </details>
  )
}
