/** One measurement: while it runs, and what it found. */
import { Anchor, Button, Group, SimpleGrid, Stack, Table, Text } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { saveAs } from '../../lib/save'
import { ApiError, call, json } from '../../api/client'
import { useWho } from '../../api/session'
import { Series } from '../../chart/series'
import { CopyButton } from '../../ui/copy'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { End } from './list'
import { RUNS_MIN, short } from './figures'
import { OutcomeList } from './outcomes'
import { type Figures, type Range, repeat, type Run } from './queries'

const api = getRouteApi('/bench/$id')

export function BenchRun() {
  const words = useWords()
  const who = useWho()
  const client = useQueryClient()
  const navigate = useNavigate()
  const { id } = api.useParams()
  const [error, setError] = useState<unknown>()
  const found = useQuery<Run>({
    queryKey: ['bench', id],
    refetchInterval: (query) => (query.state.data?.is_running ? 1000 : false),
    queryFn: ({ signal }) => json<Run>(`/console/v1/bench/runs/${id}`, { signal }),
  })
  const { data } = found
  const refused = who.role === 'admin' ? undefined : words.adminOnly
  const end = async () => {
    setError(undefined)
    try {
      await call(`/console/v1/bench/runs/${id}`, { method: 'DELETE' })
      await client.invalidateQueries({ queryKey: ['benches'] })
      if (data?.is_running) await client.invalidateQueries({ queryKey: ['bench', id] })
      else await navigate({ to: '/bench' })
    } catch (reason) {
      setError(reason)
    }
  }
  const again = async () => {
    if (data === undefined) return
    setError(undefined)
    try {
      const next = await repeat(data)
      await client.invalidateQueries({ queryKey: ['benches'] })
      await navigate({ to: `/bench/${next}` })
    } catch (reason) {
      setError(reason)
    }
  }
  const above = <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/bench">{words.bench}</Anchor></Text>
  if (found.error instanceof ApiError && found.error.status === 404) return <>{above}<ScreenHead title={words.bench} /><Empty><span lang="en">{found.error.message}</span></Empty></>
  return (
    <>
      {above}
      <ScreenHead title={data?.name ?? words.bench}>
        {data && <CopyButton label={words.commandLine} text={() => data.command} />}
        {data?.end === 'done' && <Save id={id} what="page" name={`${id}.html`} label={words.saveReport} fail={setError} />}
        {data?.end === 'done' && <Save id={id} what="result" name={`${id}.json`} label={words.saveResult} fail={setError} />}
        {data && !data.is_running && <Button size="xs" variant="default" data-repeat disabled={refused !== undefined} title={refused} onClick={() => void again()}>{words.repeatRun}</Button>}
        {data && <Button size="xs" color="red" variant="light" disabled={refused !== undefined} title={refused} onClick={() => void end()}>{data.is_running ? words.stop : words.remove}</Button>}
      </ScreenHead>
      {error !== undefined && <ErrorBox error={error} />}
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data ? (
        <Stack>
          <section className="card">
            <Table variant="vertical" withRowBorders={false}>
              <Table.Tbody>
                {([
                  [words.state, <Group key="s" gap="xs"><End run={data} />{data.is_running && words.seconds(data.elapsed_seconds ?? 0)}</Group>],
                  [words.url, <span key="u" className="mono">{data.url}</span>],
                  [words.load, `${words.loadText(data.connections, data.seconds, data.repeat)}${data.rate !== null ? ` · ${data.rate}/s` : ''}`],
                  [words.time, <Time key="t" at={data.at_ms / 1000} />],
                  ...(data.outcomes?.length ? [[words.thresholds, <OutcomeList key="o" run={data} />]] : []),
                ] as [string, React.ReactNode][]).map(([label, text]) => (
                  <Table.Tr key={label}><Table.Th w={140} fw={500} c="dimmed" bg="transparent">{label}</Table.Th><Table.Td className="wrap">{text}</Table.Td></Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </section>
          {data.cases?.[0] && <Tiles figures={data.cases[0]} />}
          {data.series && <Course series={data.series} />}
          {data.cases ? (
            <details className="past"><summary><Text span size="sm">{words.reportText}</Text></summary><Report run={data} /></details>
          ) : <Report run={data} />}
        </Stack>
      ) : !found.isError && <Loading />}
    </>
  )
}

/** What the load generator says, word for word. */
function Report({ run }: { run: Run }) {
  const words = useWords()
  // A failed run prints sentences, and no table.
  return <pre className={run.end === 'failed' ? 'code folded' : 'code'} tabIndex={0} lang="en" aria-label={words.report}>{run.text ?? run.lines?.join('\n') ?? ''}</pre>
}

/** The figures that people ask for first, with their range over the repetitions. */
function Tiles({ figures }: { figures: Figures }) {
  const words = useWords()
  const { language } = useLanguage()
  const number = (value: number) => short(value, language)
  const range = (it: Range | null, inUnit: (value: string) => string) => (it ? inUnit(number(it.value)) : '–')
  const spread = (it: Range | null) => (it && it.low !== it.high ? words.fromTo(number(it.low), number(it.high)) : '')
  const tiles: [string, string, string][] = [
    [words.rateShort, range(figures.goodput, words.perSecondText), spread(figures.goodput)],
    ['p50', range(figures.p50, words.msText), spread(figures.p50)],
    ['p99', range(figures.p99, words.msText), spread(figures.p99)],
    [words.failedCount, number(figures.failed), Object.entries(figures.failures).map(([kind, count]) => `${kind}: ${number(count)}`).join(', ')],
  ]
  return (
    <section className="card">
      <SimpleGrid cols={{ base: 2, sm: 4 }}>
        {tiles.map(([label, value, more]) => <div key={label}><Text size="sm" c="dimmed">{label}</Text><Text size="xl" fw={600}>{value}</Text><Text size="xs" c="dimmed">{more}</Text></div>)}
      </SimpleGrid>
      {figures.runs < RUNS_MIN && <Text size="sm" c="dimmed" mt="xs">{words.singleRun}</Text>}
    </section>
  )
}

/** Rate and times of every repetition, one behind the other. */
function Course({ series }: { series: [number, number, number, number][][] }) {
  const words = useWords()
  const { language } = useLanguage()
  const points = series.flat()
  const number = (value: number) => new Intl.NumberFormat(language, { notation: 'compact', maximumSignificantDigits: 3 }).format(value)
  if (points.length < 2) return null
  const pointName = (at: number) => words.seconds(points[at]?.[0] ?? 0)
  const end = words.seconds(Math.round(series.reduce((sum, run) => sum + (run.at(-1)?.[0] ?? 0), 0)))
  return (
    <Group grow align="flex-start">
      <Series pointName={pointName} sentence={words.rateSentence(number(points.at(-1)?.[1] ?? 0), number(Math.max(...points.map((point) => point[1]))))} from="0" to={end} lines={[{ label: words.rate, color: 'var(--mantine-color-harbour-7)', values: points.map((point) => point[1]) }]} format={number} />
      <Series pointName={pointName} sentence={words.courseSentence(series.length)} from="0" to={end} lines={[{ label: 'p50', color: 'var(--mantine-color-teal-7)', values: points.map((point) => point[2]) }, { label: 'p99', color: 'var(--mantine-color-orange-7)', values: points.map((point) => point[3]) }]} format={(value) => `${number(value)} ms`} />
    </Group>
  )
}

/** Fetches a file as the page may, and hands it to the browser to be kept. */
function Save({ id, what, name, label, fail }: { id: string; what: string; name: string; label: string; fail: (reason: unknown) => void }) {
  const save = async () => {
    try {
      const { text } = await call(`/console/v1/bench/runs/${id}/${what}`)
      saveAs(name, text)
    } catch (reason) {
      fail(reason)
    }
  }
  return <Button size="xs" variant="default" onClick={() => void save()}>{label}</Button>
}
