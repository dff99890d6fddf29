/** The other names of a service of the registry: who asks for one of them gets the instances of the service. */
import { Table, Text } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { json, query } from '../../api/client'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'

const ROWS = 200

/** `update_time` is in seconds since 1970. */
interface Alias { namespace: string; name: string; comment: string; owners: string; update_time: number }

/** The aliases that point at a service. */
export function Aliases({ namespace, service, page, turn }: { namespace: string; service: string; page: number; turn: (to: number) => void }) {
  const words = useWords()
  const found = useQuery({
    queryKey: ['aliases', namespace, service, page],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: Alias[]; total: number }>(`/registry/v1/aliases${query({ target_namespace: namespace, target: service, page, page_size: ROWS })}`, { signal }),
  })
  const { data } = found
  return (
    <>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? (data.total > 0 ? <NoMatch filters={[`${words.goToPage} ${page}`]} clear={() => turn(1)} /> : <Empty>{words.noAliases}</Empty>) : (
        <Scroll>
          <Table>
            <Table.Thead><Table.Tr><Table.Th>{words.alias}</Table.Th><Table.Th>{words.namespace}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th className="hide-narrow">{words.aliasOwners}</Table.Th><Table.Th className="hide-narrow">{words.changed}</Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.list.map((row) => (
                <Table.Tr key={`${row.namespace} ${row.name}`}>
                  <Table.Td className="mono">{row.name}</Table.Td>
                  <Table.Td className="mono">{row.namespace}</Table.Td>
                  <Table.Td>{row.comment}</Table.Td>
                  <Table.Td className="hide-narrow">{row.owners}</Table.Td>
                  <Table.Td className="hide-narrow nowrap"><Text size="sm" c="dimmed"><Time at={row.update_time} /></Text></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Pager page={page} rows={ROWS} shown={data.list.length} total={data.total} turn={turn} />
          <Text size="sm" c="dimmed" mt="xs">{words.aliasesHelp}</Text>
        </Scroll>
      )}
    </>
  )
}
