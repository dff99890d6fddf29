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
import { useWords } from '../../words/words'
import { type Run, useBenches } from './queries'

export function Bench() {
  const words = useWords()
  const found = useBenches()
  const navigate = useNavigate()
  const [chosen, choose] = useState<string[]>([])
  const { data } = found
  const turn = (id: string) => choose((now) => (now.includes(id) ? now.filter((it) => it !== id) : [...now, id].slice(-2)))
  // The older one is what the newer is compared with.
  const [before, after] = [...chosen].sort()
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
          <section>
            <Group justify="space-between" mb="xs">
              <Title order={2} size="h4">{words.benchRuns}</Title>
              <Button size="xs" data-compare variant="default" disabled={before === undefined || after === undefined} title={words.compareHelp} onClick={() => void navigate({ to: '/bench/compare', search: { before, after } as never })}>{words.compare}</Button>
            </Group>
            {data.runs.length === 0 ? <Empty>{words.benchNone}</Empty> : <Runs rows={data.runs} chosen={chosen} turn={turn} />}
          </section>
        </Stack>
      )}
    </>
  )
}

function Runs({ rows, chosen, turn }: { rows: Run[]; chosen: string[]; turn: (id: string) => void }) {
  const words = useWords()
  return (
    <Scroll>
      <Table highlightOnHover>
        <Table.Thead><Table.Tr><Table.Th><span className="unseen">{words.compare}</span></Table.Th><Table.Th>{words.name}</Table.Th><Table.Th>{words.time}</Table.Th><Table.Th>{words.load}</Table.Th><Table.Th>{words.state}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {rows.map((run) => (
            <Table.Tr key={run.id}>
              <Table.Td><Checkbox aria-label={`${words.compare}: ${run.name} ${run.id}`} checked={chosen.includes(run.id)} disabled={run.end !== 'done'} onChange={() => turn(run.id)} /></Table.Td>
              <Table.Td><Anchor component={Link} to={`/bench/${run.id}`}>{run.name}</Anchor><Text size="xs" c="dimmed" className="mono">{run.url}</Text></Table.Td>
              <Table.Td><Time at={run.at_ms / 1000} /></Table.Td>
              <Table.Td>{words.loadText(run.connections, run.seconds, run.repeat)}{run.rate !== null && ` · ${run.rate}/s`}</Table.Td>
              <Table.Td><End run={run} /></Table.Td>
            </Table.Tr>
          ))}
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
  const [repeat, setRepeat] = useState('3')
  const [rate, setRate] = useState('')
  const [error, setError] = useState<unknown>()
  const refused = who.role === 'admin' ? undefined : words.adminOnly
  const plan = ([clients, length, times, requests]: readonly string[]) => {
    setConnections(clients as string)
    setSeconds(length as string)
    setRepeat(times as string)
    setRate(requests as string)
  }
  const example = `http://${(plane ?? '127.0.0.1:9080').replace('0.0.0.0', '127.0.0.1')}/`
  const target = url || example
  const command = `tollhouse bench http ${quoted(target)} -c ${connections} -d ${seconds}s --repeat ${repeat}${rate ? ` -r ${rate}` : ''}`
  const start = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    try {
      const body = JSON.stringify({ url: target, name, connections: Number(connections), seconds: Number(seconds), repeat: Number(repeat), rate: rate === '' ? null : Number(rate) })
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
            {field(words.repetitions, repeat, setRepeat, { inputMode: 'numeric' })}
            {field(words.rate, rate, setRate, { inputMode: 'numeric', placeholder: words.asManyAsCome })}
          </SimpleGrid>
          <Group gap="xs"><Text size="sm" c="dimmed">{words.plansHelp}</Text>{(Object.keys(PLANS) as (keyof typeof PLANS)[]).map((name) => <Button key={name} size="xs" variant="default" onClick={() => plan(PLANS[name])}>{words.plans[name]}</Button>)}</Group>
          {Number(repeat) < 3 && <Text size="sm" c="orange">{words.fewRuns}</Text>}
          <Text size="sm" className="mono">{command}</Text>
          <Group><Button type="submit" disabled={refused !== undefined || isBusy} title={refused ?? (isBusy ? words.benchBusy : undefined)}>{words.start}</Button><CopyButton label={words.commandLine} text={() => command} /></Group>
        </Stack>
      </form>
    </section>
  )
}
