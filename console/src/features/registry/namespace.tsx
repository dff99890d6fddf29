/** Namespaces: chosen in forms, listed, made, described and deleted. */
import { Button, Group, Stack, Table, Text, Textarea, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call, json, query } from '../../api/client'
import type { Counted } from '../../api/types'
import { Deletion } from '../../ui/deletion'
import { Dialog } from '../../ui/dialog'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { lines, pairs } from './pairs'

export interface Namespace { name: string; comment: string; owners: string; metadata: Record<string, string>; services: number; instances: Counted; update_time: number }

const ROWS = 100
/** Names that a field suggests. */
const SUGGESTED = 200
const PATH = '/registry/v1/namespaces'

/** A field with the namespaces that there are; a new name is taken too. */
export function NamespaceInput({ value, set, isFixed = false }: { value: string; set: (value: string) => void; isFixed?: boolean }) {
  const words = useWords()
  const { data } = useQuery({ queryKey: ['namespaces', 'names'], staleTime: 10_000, queryFn: ({ signal }) => json<{ list: Namespace[] }>(`${PATH}${query({ page_size: SUGGESTED })}`, { signal }) })
  return (
    <>
      <TextInput label={words.namespace} required disabled={isFixed} list="namespace-names" value={value} onChange={(event) => set(event.currentTarget.value)} />
      <datalist id="namespace-names">{data?.list.map((one) => <option key={one.name} value={one.name} />)}</datalist>
    </>
  )
}

export function Namespaces({ q, page, turn, clear, refused }: { q: string | undefined; page: number; turn: (to: number) => void; clear: () => void; refused: string | undefined }) {
  const words = useWords()
  const [open, setOpen] = useState<{ what: 'edit' | 'delete'; namespace: Namespace }>()
  const close = () => setOpen(undefined)
  const found = useQuery({
    queryKey: ['namespaces', q, page],
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: Namespace[]; total: number }>(`${PATH}${query({ q, page, page_size: ROWS })}`, { signal }),
  })
  const { data } = found
  if (found.isError) return <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />
  if (data === undefined) return <Loading />
  if (data.list.length === 0) return q ? <NoMatch filters={[q]} clear={clear} /> : <Empty>{words.none}</Empty>
  return (
    <Scroll>
      <Table highlightOnHover className="cards">
        <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th className="numbers">{words.naming.services}</Table.Th><Table.Th>{words.instances}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th>{words.aliasOwners}</Table.Th><Table.Th>{words.changed}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {data.list.map((one) => (
            <Table.Tr key={one.name}>
              <Table.Td data-label={words.name}><Text fw={600} size="sm" className="mono">{one.name}</Text></Table.Td>
              <Table.Td data-label={words.naming.services} className="numbers">{one.services}</Table.Td>
              <Table.Td data-label={words.instances}>{words.naming.summary(one.instances)}</Table.Td>
              <Table.Td data-label={words.comment}>{one.comment}</Table.Td>
              <Table.Td data-label={words.aliasOwners}>{one.owners}</Table.Td>
              <Table.Td data-label={words.changed} className="nowrap"><Text size="sm" c="dimmed"><Time at={one.update_time} /></Text></Table.Td>
              <Table.Td><Group gap={4} wrap="nowrap" justify="flex-end">
                <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what: 'edit', namespace: one })} aria-label={`${words.edit} ${one.name}`}>{words.edit}</Button>
                <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what: 'delete', namespace: one })} aria-label={`${words.remove} ${one.name}`}>{words.remove}</Button>
              </Group></Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Pager page={page} rows={ROWS} shown={data.list.length} total={data.total} turn={turn} />
      {open?.what === 'edit' && <NamespaceForm namespace={open.namespace} close={close} />}
      {open?.what === 'delete' && <Removal name={open.namespace.name} path={`${PATH}/${encodeURIComponent(open.namespace.name)}`} help={words.naming.deleteNamespaceHelp(open.namespace.services)} close={close} done={close} />}
    </Scroll>
  )
}

export function NamespaceForm({ namespace, close }: { namespace?: Namespace; close: () => void }) {
  const words = useWords()
  const client = useQueryClient()
  const [name, setName] = useState(namespace?.name ?? '')
  const [comment, setComment] = useState(namespace?.comment ?? '')
  const [owners, setOwners] = useState(namespace?.owners ?? '')
  const [metadata, setMetadata] = useState(lines(namespace?.metadata ?? {}))
  const [error, setError] = useState<unknown>()
  const table = pairs(metadata)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    const body = { comment, owners, metadata: table }
    try {
      if (namespace) await call(`${PATH}/${encodeURIComponent(name)}`, { method: 'PATCH', body: JSON.stringify(body) })
      else await call(PATH, { method: 'POST', body: JSON.stringify({ name, ...body }) })
      await client.invalidateQueries({ queryKey: ['namespaces'] })
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} title={namespace ? `${words.edit}: ${namespace.name}` : words.naming.newNamespace}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.name} required disabled={namespace !== undefined} data-autofocus={namespace === undefined || undefined} placeholder="production" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          <TextInput label={words.aliasOwners} value={owners} onChange={(event) => setOwners(event.currentTarget.value)} />
          <Textarea label={words.metadata} description={words.metadataHelp} autosize minRows={2} maxRows={8} spellCheck={false} value={metadata} error={table === undefined ? words.metadataFault : undefined} onChange={(event) => setMetadata(event.currentTarget.value)} />
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" disabled={name === '' || table === undefined}>{namespace ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}

/** Deletion of a namespace or service; the registry refuses it unless it is empty. */
export function Removal({ name, path, help, close, done }: { name: string; path: string; help: string; close: () => void; done: () => void }) {
  const client = useQueryClient()
  const remove = async () => {
    await call(path, { method: 'DELETE' })
    await client.invalidateQueries({ queryKey: ['namespaces'] })
    await client.invalidateQueries({ queryKey: ['registry'] })
    done()
  }
  return <Deletion what={name} typed={name} help={help} remove={remove} close={close} />
}
