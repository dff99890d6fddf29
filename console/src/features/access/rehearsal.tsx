/** What would have been refused in the last 24 hours, by caller: to be empty before policies are enforced. */
import { Group, Stack, Table, Text } from '@mantine/core'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { type GateState, type Refused, useRehearsal } from './queries'

const STATES = { open: 'off', rehearsed: 'warn', locked: 'good' } as const

export function RehearsalView() {
  const words = useWords()
  const say = words.access
  const { data, isError, error, refetch, dataUpdatedAt } = useRehearsal()
  if (isError) return <ErrorBox error={error} retry={() => void refetch()} since={dataUpdatedAt} />
  if (data === undefined) return <Loading />
  const byCaller = new Map<string, Refused[]>()
  for (const row of data.refused) byCaller.set(row.caller, [...(byCaller.get(row.caller) ?? []), row])
  const callers = [...byCaller].map(([caller, rows]) => ({ caller, rows, count: rows.reduce((sum, row) => sum + row.count, 0) })).sort((a, b) => b.count - a.count)
  const isOff = data.client === 'open' && data.console === 'open'
  const gate = (label: string, state: GateState, key: string) => <Group gap="xs"><Text size="sm" fw={500}>{label}</Text><StateBadge state={STATES[state]} label={say.gates[state]} /><code className="mono" lang="en">{key}</code></Group>
  return (
    <Stack>
      <section className="card">
        <Stack gap="xs">
          {gate(say.gateClients, data.client, 'registry.client_auth')}
          {gate(say.gateConsole, data.console, 'registry.console_auth')}
          <Text size="sm" c="dimmed">{isOff ? say.rehearsalOff : say.rehearsalHelp}</Text>
          {data.client !== 'locked' && <code className="example" lang="en">{data.client === 'open' ? 'registry:\n  auth_rehearsal: true' : 'registry:\n  client_auth: true'}</code>}
        </Stack>
      </section>
      {callers.length === 0 ? <Empty>{isOff ? say.rehearsalIsOff : say.nothingRefused}</Empty> : (
        <>
          <Text size="sm" aria-live="polite">{say.refusedCount(callers.length, callers.reduce((sum, one) => sum + one.count, 0))}</Text>
          <Scroll>
            <Table className="cards">
              <Table.Thead><Table.Tr><Table.Th>{say.caller}</Table.Th><Table.Th>{say.callName}</Table.Th><Table.Th>{say.object}</Table.Th><Table.Th className="numbers">{say.times}</Table.Th><Table.Th>{say.last}</Table.Th></Table.Tr></Table.Thead>
              <Table.Tbody>
                {callers.flatMap(({ caller, rows }) => rows.map((row, at) => (
                  <Table.Tr key={`${caller} ${row.function} ${row.resource} ${row.code}`}>
                    <Table.Td data-label={say.caller}>{at === 0 ? <Text fw={600} size="sm" className="mono">{caller}</Text> : <span className="unseen">{caller}</span>}</Table.Td>
                    <Table.Td data-label={say.callName} className="mono">{row.function || '–'}</Table.Td>
                    <Table.Td data-label={say.object} className="mono">{row.resource || '–'}</Table.Td>
                    <Table.Td data-label={say.times} className="numbers">{row.count}</Table.Td>
                    <Table.Td data-label={say.last} className="nowrap"><Text size="sm" c="dimmed"><Time at={row.last_ms / 1000} /></Text></Table.Td>
                  </Table.Tr>
                )))}
              </Table.Tbody>
            </Table>
          </Scroll>
          {data.dropped > 0 && <Text size="sm" c="dimmed">{say.droppedRefusals(data.dropped)}</Text>}
        </>
      )}
    </Stack>
  )
}
