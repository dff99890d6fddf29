/** What has happened to the instances of a service. The registry keeps the last ten thousand. */
import { Table, Text } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { json, query } from '../../api/client'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, StateBadge } from '../../ui/states'
import { clock, Time } from '../../ui/time'
import { useWords } from '../../words/words'

interface Event {
  number: number
  at_ms: number
  happening: 'registered' | 'replaced' | 'deregistered' | 'expired' | 'recovered' | 'set_healthy' | 'set_unhealthy' | 'isolated' | 'rejoined' | 'weighted' | 'changed'
  instance: string
  host: string
  port: number
  weight: number
  last_beat_s: number | null
}

/** How each is shown: what takes traffic away is bad news, what brings it is good. */
const STATES = {
  registered: 'good', replaced: 'off', deregistered: 'off', expired: 'bad', recovered: 'good', set_healthy: 'good', set_unhealthy: 'bad', isolated: 'warn', rejoined: 'good', weighted: 'off', changed: 'off',
} as const

/** What has happened to the instances of a service, the newest first. */
export function Events({ namespace, service }: { namespace: string; service: string }) {
  const words = useWords()
  const found = useQuery({
    queryKey: ['registry-events', namespace, service],
    refetchInterval: 2000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ kept: number; rows: Event[] }>(`/console/v1/registry/events${query({ namespace, service })}`, { signal }),
  })
  const { data } = found
  if (found.isError) return <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />
  if (data === undefined) return <Loading />
  if (data.rows.length === 0) return <Empty>{words.noEvents}</Empty>
  return (
    <Scroll>
      <Table>
        <Table.Thead><Table.Tr><Table.Th>{words.time}</Table.Th><Table.Th>{words.happening}</Table.Th><Table.Th>{words.instance}</Table.Th><Table.Th className="hide-narrow">{words.id}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {data.rows.map((row) => (
            <Table.Tr key={row.number}>
              <Table.Td><span className="mono">{clock(row.at_ms)}</span> <Text span size="xs" c="dimmed"><Time at={row.at_ms / 1000} /></Text></Table.Td>
              <Table.Td>
                <StateBadge state={STATES[row.happening] ?? 'off'} label={words.happenings[row.happening] ?? row.happening} />
                {row.happening === 'weighted' && <Text span size="sm"> {row.weight}</Text>}
                {row.last_beat_s !== null && <Text size="xs" c="dimmed">{words.beat} <Time at={row.last_beat_s} /></Text>}
              </Table.Td>
              <Table.Td className="mono">{row.host}:{row.port}</Table.Td>
              <Table.Td className="mono hide-narrow">{row.instance}</Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt="xs">{words.eventsHelp}</Text>
    </Scroll>
  )
}
