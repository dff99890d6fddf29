import { Anchor, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ApiError, json, query } from '../../api/client'
import type { Counted, RegistryService } from '../../api/types'
import { pattern } from '../../lib/pattern'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'

const api = getRouteApi('/registry')
const ROWS = 100

export function RegistryServices() {
  const words = useWords()
  const { q, page = 1 } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['registry', q, page],
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: RegistryService[]; total: number }>(`/registry/v1/services${query({ name: q && pattern(q), page, page_size: ROWS })}`, { signal }),
  })
  const { data, error } = found
  const isOff = error instanceof ApiError && error.status === 404
  const turn = (to: number) => void navigate({ search: { q, page: to > 1 ? to : undefined } })
  return (
    <>
      <ScreenHead title={words.registryServices} />
      {isOff ? <Empty>{words.registryOff}</Empty> : (
        <>
          <TextInput data-filter mb="md" className="filterbox" aria-label={words.filter} placeholder={words.filter} value={q ?? ''} onChange={(event) => void navigate({ search: { q: event.currentTarget.value || undefined }, replace: true })} />
          {found.isError && <ErrorBox error={error} retry={() => void found.refetch()} />}
          {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? <Empty>{q ? words.noMatch : words.registryEmpty}</Empty> : (
            <Scroll>
              <Table highlightOnHover>
                <Table.Thead><Table.Tr><Table.Th>{words.service}</Table.Th><Table.Th>{words.namespace}</Table.Th><Table.Th>{words.instances}</Table.Th><Table.Th>{words.state}</Table.Th></Table.Tr></Table.Thead>
                <Table.Tbody>
                  {data.list.map((row) => (
                    <Table.Tr key={`${row.namespace}/${row.name}`}>
                      <Table.Td><Anchor component={Link} to={`/registry/${encodeURIComponent(row.namespace)}/${encodeURIComponent(row.name)}`}>{row.name}</Anchor></Table.Td>
                      <Table.Td>{row.namespace}</Table.Td>
                      <Table.Td><InstanceCounts counted={row.instances} /></Table.Td>
                      <Table.Td>{row.mass_expiry ? <StateBadge state="warn" label={words.protection} /> : row.instances.healthy > 0 ? <StateBadge state="good" label={words.healthy} /> : <StateBadge state={row.instances.total > 0 ? 'bad' : 'off'} label={row.instances.total > 0 ? words.unhealthy : words.none} />}</Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
              <Pager page={page} rows={ROWS} shown={data.list.length} total={data.total} turn={turn} />
            </Scroll>
          )}
        </>
      )}
    </>
  )
}

/** All states, with words: an unhealthy instance is never hidden. */
function InstanceCounts({ counted }: { counted: Counted }) {
  const words = useWords()
  const { total, healthy, unhealthy, isolated } = counted
  return (
    <Text size="sm">
      {words.instancesHealthy(healthy, total)}
      {unhealthy > 0 && ` · ${unhealthy} ${words.unhealthy}`}
      {isolated > 0 && ` · ${isolated} ${words.isolated}`}
    </Text>
  )
}
