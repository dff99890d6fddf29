/** Nodes of all upstreams, with their state and what speaks for it. */
import { Anchor, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { json, query } from '../../api/client'
import type { NodeRow } from '../../api/types'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead, StateBadge } from '../../ui/states'
import { clock, Time } from '../../ui/time'
import type { Words } from '../../words/en'
import { useWords } from '../../words/words'

const api = getRouteApi('/nodes')

export function Nodes() {
  const words = useWords()
  const { q } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['nodes', q],
    refetchInterval: 3000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ total: number; rows: NodeRow[] }>(`/console/v1/nodes${query({ q })}`, { signal }),
  })
  const { data } = found
  return (
    <>
      <ScreenHead title={words.nodes} />
      <TextInput data-filter mb="md" className="filterbox" aria-label={words.filterNodes} placeholder={words.filterNodes} value={q ?? ''} onChange={(event) => void navigate({ search: { q: event.currentTarget.value || undefined }, replace: true })} />
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.rows.length === 0 ? (q ? <NoMatch filters={[q]} clear={() => void navigate({ search: {} })} /> : <Empty>{words.noNodes}</Empty>) : (
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead><Table.Tr>
              <Table.Th>{words.state}</Table.Th><Table.Th>{words.host}</Table.Th><Table.Th className="hide-narrow">{words.address}</Table.Th>
              <Table.Th>{words.upstream}</Table.Th><Table.Th className="numbers">{words.weight}</Table.Th><Table.Th>{words.reason}</Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.rows.map((row, at) => (
                <Table.Tr key={`${row.place} ${row.host} ${row.port} ${at}`}>
                  <Table.Td><NodeState row={row} /></Table.Td>
                  <Table.Td className="mono whole">{row.host}:{row.port}</Table.Td>
                  <Table.Td className="mono whole hide-narrow">{row.address ?? '–'}</Table.Td>
                  <Table.Td><Anchor component={Link} to={`/objects/${row.place}`}>{row.name ?? row.place}</Anchor></Table.Td>
                  <Table.Td className="numbers">{row.weight}{row.share_percent < 100 && ` (${row.share_percent} %)`}</Table.Td>
                  <Table.Td><Text size="sm" lang="en">{row.reason}</Text><NodeHistory row={row} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Text size="sm" c="dimmed" mt="xs">{words.shown(1, data.rows.length, data.total)}</Text>
        </Scroll>
      )}
    </>
  )
}

/** Since when a node is as it is, and what it was before. */
function NodeHistory({ row }: { row: NodeRow }) {
  const words = useWords()
  const history = row.history
  if (!history) return null
  return (
    <details className="past">
      <summary><Text span size="xs" c="dimmed">{words.since} <Time at={history.since_ms / 1000} />{history.changes.length > 0 && ` · ${words.stateChanges(history.changes.length)}`}</Text></summary>
      <ul className="places">
        {history.changes.map((change) => (
          <li key={change.at_ms}><Text size="xs"><span className="mono">{clock(change.at_ms)}</span> {stateWord(words, change.from)} → <strong>{stateWord(words, change.to)}</strong> <span lang="en">{change.reason}</span></Text></li>
        ))}
      </ul>
    </details>
  )
}

/** What a state of a node is called. */
const stateWord = (words: Words, state: string) => words.nodeStates[state as keyof Words['nodeStates']] ?? state

export function NodeState({ row }: { row: { status: string; address?: string | null; is_checked?: boolean } }) {
  const words = useWords()
  if (row.address === null) return <StateBadge state="bad" label={words.nodeStates.unresolved} />
  if (row.status === 'failing') return <StateBadge state="bad" label={words.nodeStates.failing} />
  if (row.is_checked === false) return <StateBadge state="off" label={words.unchecked} />
  const state = row.status === 'healthy' ? 'good' : row.status === 'unhealthy' ? 'bad' : 'warn'
  return <StateBadge state={state} label={stateWord(words, row.status)} />
}
