/** Nodes of all upstreams, with their state and what speaks for it. */
import { Anchor, Group, SegmentedControl, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { json, query } from '../../api/client'
import { useRates } from '../../api/rates'
import type { NodeRow } from '../../api/types'
import { Figures } from '../../flow/figures'
import { NodeState, nodeWord, stateOf, stateWord } from '../../ui/node-state'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { clock, Time } from '../../ui/time'
import { useWords } from '../../words/words'

const api = getRouteApi('/nodes')

const ROWS = 50

export function Nodes() {
  const words = useWords()
  const { q, state, page = 1 } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['nodes', q],
    refetchInterval: 3000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ total: number; rows: NodeRow[] }>(`/console/v1/nodes${query({ q })}`, { signal }),
  })
  const { data } = found
  const rows = (data?.rows ?? []).filter((row) => state === undefined || stateOf(row) === state)
  // The states that there are, with how many nodes are in each; the worst first, as in the list.
  const counts = new Map<string, number>()
  for (const row of data?.rows ?? []) counts.set(stateOf(row), (counts.get(stateOf(row)) ?? 0) + 1)
  if (state !== undefined && !counts.has(state)) counts.set(state, 0)
  const shown = rows.slice((page - 1) * ROWS, page * ROWS) ?? []
  const rates = useRates('nodes', shown.flatMap((row) => row.address ?? [])).data?.rows ?? []
  return (
    <>
      <ScreenHead title={words.nodes} note={words.nodesHelp} />
      <Group mb="md" gap="sm">
        <TextInput data-filter className="filterbox" aria-label={words.filterNodes} placeholder={words.filterNodes} value={q ?? ''} onChange={(event) => void navigate({ search: { q: event.currentTarget.value || undefined, state }, replace: true })} />
        {data && (counts.size > 1 || state !== undefined) && (
          <SegmentedControl size="xs" aria-label={words.state} value={state ?? ''} onChange={(next) => void navigate({ search: { q, state: next || undefined } })}
            data={[{ value: '', label: `${words.allPlugins} ${data.rows.length}` }, ...[...counts].map(([name, count]) => ({ value: name, label: `${nodeWord(words, name)} ${count}` }))]} />
        )}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : rows.length === 0 ? (q || state ? <NoMatch filters={[q, state && nodeWord(words, state)]} clear={() => void navigate({ search: {} })} /> : <Empty icon="nodes" title={words.noNodes}>{words.noNodesHelp} <Anchor component={Link} to="/objects/upstreams">{words.upstreams}</Anchor></Empty>) : (
        <>
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead><Table.Tr>
              <Table.Th>{words.state}</Table.Th><Table.Th>{words.host}</Table.Th><Table.Th className="hide-narrow">{words.address}</Table.Th>
              <Table.Th>{words.upstream}</Table.Th><Table.Th className="numbers">{words.weight}</Table.Th><Table.Th>{words.rateShort}</Table.Th><Table.Th>{words.reason}</Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {shown.map((row, at) => (
                <Table.Tr key={`${row.place} ${row.host} ${row.port} ${at}`}>
                  <Table.Td><NodeState row={row} /></Table.Td>
                  <Table.Td className="mono whole">{row.host}:{row.port}</Table.Td>
                  <Table.Td className="mono whole hide-narrow">{row.address ?? '–'}</Table.Td>
                  <Table.Td><Anchor component={Link} to={`/objects/${row.place}`}>{row.name ?? row.place}</Anchor></Table.Td>
                  <Table.Td className="numbers">{row.weight}{row.share_percent < 100 && ` (${row.share_percent} %)`}</Table.Td>
                  <Table.Td><Figures of={rates.find((rate) => rate.id === row.address)} search={{ q: row.address ?? row.host }} /></Table.Td>
                  <Table.Td><Text size="sm" lang="en">{row.reason}</Text><NodeHistory row={row} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
        <Pager page={page} rows={ROWS} shown={shown.length} total={rows.length} turn={(to) => void navigate({ search: { q, state, page: to > 1 ? to : undefined } })} />
        {data.total > data.rows.length && <Text size="sm" c="dimmed">{words.shown(1, data.rows.length, data.total)}</Text>}
        </>
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
