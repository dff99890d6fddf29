/** Measurements that were made from here, and the form of a new one. */
import { Anchor, Button, Checkbox, Group, SimpleGrid, Stack, Table, Text, TextInput, Title } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { json } from '../../api/client'
import { useWho } from '../../api/session'
import { useOverview } from '../../api/live'
import { quoted } from '../../lib/curl'
import { CopyButton } from '../../ui/copy'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { COMPARED_MAX, short } from './figures'
import { Outcomes } from './outcomes'
import { repeat, type Run, useBenches } from './queries'

export function Bench() {
  const words = useWords()
  const found = useBenches()
  const navigate = useNavigate()
  const [chosen, choose] = useState<string[]>([])
  const { data } = found
  const [error, setError] = useState<unknown>()
  const client = useQueryClient()
  const turn = (id: string) => choose((now) => (now.includes(id) ? now.filter((it) => it !== id) : [...now, id].slice(-COMPARED_MAX)))
  const again = async (run: Run) => {
    setError(undefined)
    try {
      const id = await repeat(run)
      await client.invalidateQueries({ queryKey: ['benches'] })
      await navigate({ to: `/bench/${id}` })
    } catch (reason) {
      setError(reason)
    }
  }
  return (
    <>
      <ScreenHead title={words.bench} note={words.benchHelp} />
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : (
        <Stack gap="lg">
          {data.running && (
            <section className="card" role="status">
              <Group justify="space-between">
                <Text><StateBadge state="warn" label={words.benchRunning} /> {data.running.name} · {words.seconds(data.running.elapsed_seconds ?? 0)}</Text>
                <Button size="xs" variant="default" component={Link} to={`/bench/${data.running.id}`}>{words.watchIt}</Button>
              </Group>
            </section>
          )}
          {data.is_on ? <NewRun targets={data.targets} isBusy={data.running !== null} /> : <Empty>{words.benchOff}</Empty>}
          {error !== undefined && <ErrorBox error={error} />}
          <section>
            <Group justify="space-between" mb="xs">
              <Title order={2} size="h4">{words.benchRuns}</Title>
              <Button size="xs" data-compare variant="default" disabled={chosen.length < 2} title={words.compareHelp} onClick={() => void navigate({ to: '/bench/compare', search: { ids: [...chosen].sort().join(',') } as never })}>{words.compare}</Button>
            </Group>
            {data.runs.length === 0 ? <Empty>{words.benchNone}</Empty> : <Runs rows={data.runs} chosen={chosen} turn={turn} again={data.is_on ? again : undefined} isBusy={data.running !== null} />}
          </section>
        </Stack>
      )}
    </>
  )
}

function Runs({ rows, chosen, turn, again, isBusy }: { rows: Run[]; chosen: string[]; turn: (id: string) => void; again: ((run: Run) => Promise<void>) | undefined; isBusy: boolean }) {
  const words = useWords()
  const who = useWho()
  const { language } = useLanguage()
  const number = (value: number | undefined, inUnit: (text: string) => string) => (value === undefined ? '–' : inUnit(short(value, language)))
  const refused = who.role === 'admin' ? undefined : words.adminOnly
  return (
    <Scroll>
      <Table highlightOnHover>
        <Table.Thead>
          <Table.Tr>
            <Table.Th><span className="unseen">{words.compare}</span></Table.Th><Table.Th>{words.name}</Table.Th>
            <Table.Th className="numbers">{words.rateShort}</Table.Th><Table.Th className="numbers">p50</Table.Th><Table.Th className="numbers">p99</Table.Th><Table.Th className="numbers">{words.failedCount}</Table.Th>
            <Table.Th>{words.thresholds}</Table.Th><Table.Th>{words.load}</Table.Th><Table.Th>{words.time}</Table.Th><Table.Th>{words.state}</Table.Th><Table.Th><span className="unseen">{words.repeatRun}</span></Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {rows.map((run) => {
            const figures = run.cases?.[0]
            return (
              <Table.Tr key={run.id}>
                <Table.Td><Checkbox aria-label={`${words.compare}: ${run.name} ${run.id}`} checked={chosen.includes(run.id)} disabled={run.end !== 'done'} onChange={() => turn(run.id)} /></Table.Td>
                <Table.Td><Anchor component={Link} to={`/bench/${run.id}`}>{run.name}</Anchor>{run.name !== run.url && <Text size="xs" c="dimmed" className="mono">{run.url}</Text>}</Table.Td>
                <Table.Td className="numbers">{number(figures?.goodput?.value, words.perSecondText)}</Table.Td>
                <Table.Td className="numbers">{number(figures?.p50?.value, words.msText)}</Table.Td>
                <Table.Td className="numbers">{number(figures?.p99?.value, words.msText)}</Table.Td>
                <Table.Td className="numbers">{number(figures?.failed, (text) => text)}</Table.Td>
                <Table.Td><Outcomes run={run} /></Table.Td>
                <Table.Td className="nowrap">{words.loadText(run.connections, run.seconds, run.repeat)}{run.rate !== null && ` · ${run.rate}/s`}</Table.Td>
                <Table.Td className="nowrap"><Time at={run.at_ms / 1000} /></Table.Td>
                <Table.Td><End run={run} /></Table.Td>
                <Table.Td>{again && <Button size="compact-xs" variant="default" disabled={refused !== undefined || isBusy} title={refused ?? (isBusy ? words.benchBusy : undefined)} aria-label={`${words.repeatRun}: ${run.name} ${run.id}`} onClick={() => void again(run)}>{words.repeatRun}</Button>}</Table.Td>
              </Table.Tr>
            )
          })}
        </Table.Tbody>
      </Table>
    </Scroll>
  )
}

export function End({ run }: { run: Run }) {
  const words = useWords()
  if (run.end === undefined) return <StateBadge state="warn" label={words.benchRunning} />
  return <StateBadge state={run.end === 'done' ? 'good' : run.end === 'failed' ? 'bad' : 'off'} label={words.benchEnds[run.end]} />
}

/** Connections, seconds, repetitions and rate of plans: as many requests as come, a rate that is kept whatever the answers, and one client. */
const PLANS = { most: ['64', '10', '3', ''], steady: ['32', '30', '3', '1000'], patient: ['1', '10', '3', ''] } as const

/** Says what is to be measured; the command line beside it does the same. */
function NewRun({ targets, isBusy }: { targets: string[]; isBusy: boolean }) {
  const words = useWords()
  const who = useWho()
  const client = useQueryClient()
  const navigate = useNavigate()
  const plane = useOverview().data?.listeners.http?.[0]
  const [url, setUrl] = useState('')
  const [name, setName] = useState('')
  const [connections, setConnections] = useState('10')
  const [seconds, setSeconds] = useState('10')
  const [times, setTimes] = useState('3')
  const [rate, setRate] = useState('')
  const [conditions, setConditions] = useState('')
  const [error, setError] = useState<unknown>()
  const refused = who.role === 'admin' ? undefined : words.adminOnly
  const plan = ([clients, length, repetitions, requests]: readonly string[]) => {
    setConnections(clients as string)
    setSeconds(length as string)
    setTimes(repetitions as string)
    setRate(requests as string)
  }
  const example = `http://${(plane ?? '127.0.0.1:9080').replace('0.0.0.0', '127.0.0.1')}/`
  const target = url || example
  const thresholds = conditions.split(',').map((it) => it.trim()).filter((it) => it !== '')
  const command = `tollhouse bench http ${quoted(target)} -c ${connections} -d ${seconds}s --repeat ${times}${rate ? ` -r ${rate}` : ''}${thresholds.map((it) => ` --threshold '${it}'`).join('')}`
  const start = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    try {
      const body = JSON.stringify({ url: target, name, connections: Number(connections), seconds: Number(seconds), repeat: Number(times), rate: rate === '' ? null : Number(rate), thresholds })
      const { id } = await json<{ id: string }>('/console/v1/bench/runs', { method: 'POST', body })
      await client.invalidateQueries({ queryKey: ['benches'] })
      await navigate({ to: `/bench/${id}` })
    } catch (reason) {
      setError(reason)
    }
  }
  const field = (label: string, value: string, set: (value: string) => void, more: object = {}) => <TextInput label={label} value={value} onChange={(event) => set(event.currentTarget.value)} {...more} />
  return (
    <section className="card">
      <Title order={2} size="h4" mb="xs">{words.newMeasurement}</Title>
      <form onSubmit={start}>
        <Stack gap="sm">
          {error !== undefined && <ErrorBox error={error} />}
          {field(words.url, url, setUrl, { placeholder: example, description: words.targetsHelp(targets.join(', ')) })}
          <SimpleGrid cols={{ base: 2, sm: 5 }}>
            {field(words.name, name, setName)}
            {field(words.connections, connections, setConnections, { inputMode: 'numeric' })}
            {field(words.secondsEach, seconds, setSeconds, { inputMode: 'numeric' })}
            {field(words.repetitions, times, setTimes, { inputMode: 'numeric' })}
            {field(words.rate, rate, setRate, { inputMode: 'numeric', placeholder: words.asManyAsCome })}
          </SimpleGrid>
          {field(words.thresholds, conditions, setConditions, { placeholder: 'p99 < 50ms, failure_rate < 1%', description: words.thresholdsHelp })}
          <Group gap="xs"><Text size="sm" c="dimmed">{words.plansHelp}</Text>{(Object.keys(PLANS) as (keyof typeof PLANS)[]).map((name) => <Button key={name} size="xs" variant="default" onClick={() => plan(PLANS[name])}>{words.plans[name]}</Button>)}</Group>
          {Number(times) < 3 && <Text size="sm" c="orange">{words.fewRuns}</Text>}
          <Text size="sm" className="mono">{command}</Text>
          <Group><Button type="submit" disabled={refused !== undefined || isBusy} title={refused ?? (isBusy ? words.benchBusy : undefined)}>{words.start}</Button><CopyButton label={words.commandLine} text={() => command} /></Group>
        </Stack>
      </form>
    </section>
  )
}
