/** The credentials of a consumer. What they hold is never shown; a new one is made in `new-credential.tsx`. */
import { Button, Group, Table, Text, Title } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { call, json, query } from '../../api/client'
import type { ObjectRow } from '../../api/types'
import { Deletion } from '../../ui/deletion'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { ErrorBox } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { NewCredential } from './new-credential'
import { pathOf } from './queries'

/** Credentials that are shown; a consumer has one or two, and while they are changed one more. */
const ROWS = 100

/** What a consumer is recognised by: never what it holds. One is added with a secret that is shown once. */
export function Credentials({ consumer }: { consumer: string }) {
  const words = useWords()
  const refused = useRefusal()
  const [isAdding, setAdding] = useState(false)
  const [leaving, setLeaving] = useState<string>()
  const found = useQuery({
    queryKey: ['objects', 'credentials', consumer],
    refetchInterval: 10_000,
    queryFn: ({ signal }) => json<{ total: number; rows: ObjectRow[] }>(`/console/v1/objects/consumers/${encodeURIComponent(consumer)}/credentials${query({ page_size: ROWS })}`, { signal }),
  })
  const rows = found.data?.rows ?? []
  return (
    <section aria-labelledby="credentials">
      <Group justify="space-between" mb="xs">
        <Title order={2} size="h4" id="credentials">{words.credentials}</Title>
        <Button size="xs" data-add disabled={refused !== undefined} title={refused} onClick={() => setAdding(true)}>{words.addCredential}</Button>
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {found.data && rows.length === 0 && <Text size="sm" c="dimmed">{words.noCredentials}</Text>}
      {rows.length > 0 && (
        <Scroll>
          <Table>
            <Table.Thead><Table.Tr><Table.Th>{words.id}</Table.Th><Table.Th>{words.plugin}</Table.Th><Table.Th>{words.changed}</Table.Th><Table.Th><span className="unseen">{words.remove}</span></Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td className="mono">{row.id}</Table.Td>
                  <Table.Td>{row.plugins?.join(', ')}</Table.Td>
                  <Table.Td><Time at={row.update_time} /></Table.Td>
                  <Table.Td className="numbers"><Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} aria-label={`${words.remove} ${row.id}`} onClick={() => setLeaving(row.id)}>{words.remove}</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {found.data && found.data.total > rows.length && <Text size="sm" c="dimmed">{words.shown(1, rows.length, found.data.total)}</Text>}
        </Scroll>
      )}
      {isAdding && <NewCredential consumer={consumer} taken={rows.map((row) => row.id)} close={() => setAdding(false)} />}
      {leaving !== undefined && <Removal consumer={consumer} id={leaving} close={() => setLeaving(undefined)} />}
    </section>
  )
}

function Removal({ consumer, id, close }: { consumer: string; id: string; close: () => void }) {
  const words = useWords()
  const client = useQueryClient()
  const remove = async () => {
    await call(`${pathOf('consumers', consumer)}/credentials/${encodeURIComponent(id)}`, { method: 'DELETE' })
    await client.invalidateQueries({ queryKey: ['objects'] })
    close()
  }
  return <Deletion what={id} help={words.credentialGone} remove={remove} close={close} />
}
