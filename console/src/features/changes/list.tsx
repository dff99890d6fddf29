/** What was changed, by whom and by which way, and what was refused. Documents come in by `import.tsx`. */
import { Anchor, Button, Group, NativeSelect, Table, Text, TextInput, Title } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import type { ChangeRow, RefusedWrite } from '../../api/types'
import { KINDS } from '../../api/types'
import { DeedBadge, Differences, kindWord, ObjectName } from '../../ui/change'
import { Count } from '../../ui/count'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead, StatusBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { useChanges } from '../../api/changes'
import { exportObjects } from '../../api/transfer'
import { useRefusal } from '../../ui/permission'

const api = getRouteApi('/changes')
const WAYS = ['api', 'console', 'import', 'acme', 'file'] as const

/** What is written and is no object of the gateway's own store. */
const ELSEWHERE = ['registry', 'shenyu', 'file', 'document', 'import'] as const

export function Changes() {
  const words = useWords()
  const search = api.useSearch()
  const navigate = api.useNavigate()
  const found = useChanges(search)
  const { data } = found
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, before: undefined, ...change }, replace: true })
  const isFiltered = search.kind !== undefined || search.id !== undefined || search.actor !== undefined || search.way !== undefined
  const last = data?.rows.at(-1)
  const refused = useRefusal()
  const [refusal, refuse] = useState<unknown>()
  const keep = () => exportObjects({}).then(() => refuse(undefined), refuse)
  return (
    <>
      <ScreenHead title={words.changes} note={data && <Reach kept={data.kept} oldest={data.oldest_at_ms} />}>
        <Button size="sm" variant="default" onClick={() => void keep()}>{words.exportObjects}</Button>
        <Button size="sm" component={Link} to="/changes/import" disabled={refused !== undefined} title={refused}>{words.importObjects}</Button>
      </ScreenHead>
      {refusal !== undefined && <ErrorBox error={refusal} />}
      <Group mb="md" gap="sm" align="flex-end">
        <NativeSelect label={words.kind} value={search.kind ?? ''} onChange={(event) => set({ kind: event.currentTarget.value || undefined })}
          data={[{ value: '', label: words.any }, ...KINDS.map((kind) => ({ value: kind, label: words[kind] })), ...ELSEWHERE.map((kind) => ({ value: kind, label: words.elsewhere[kind] }))]} />
        <TextInput label={words.id} value={search.id ?? ''} onChange={(event) => set({ id: event.currentTarget.value || undefined })} />
        <TextInput label={words.who} value={search.actor ?? ''} onChange={(event) => set({ actor: event.currentTarget.value || undefined })} />
        <NativeSelect label={words.byWay} value={search.way ?? ''} onChange={(event) => set({ way: event.currentTarget.value || undefined })}
          data={[{ value: '', label: words.any }, ...WAYS.map((way) => ({ value: way, label: words.ways[way] }))]} />
        {isFiltered && <Button variant="subtle" onClick={() => void navigate({ search: {} })}>{words.clear}</Button>}
        {data && <Count text={words.changesCount(data.total)} asked={JSON.stringify(search)} isOld={found.isPlaceholderData} />}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.rows.length === 0 ? (isFiltered || data.total > 0 ? <NoMatch filters={[search.kind && kindWord(words, search.kind), search.id, search.actor, search.way]} clear={() => void navigate({ search: {} })} /> : <Empty icon="history" title={words.noChanges}>{words.noChangesHelp} <Anchor component={Link} to="/new/routes">{words.newOf(words.oneOf.routes)}</Anchor></Empty>) : (
        <>
          <Scroll><Rows rows={data.rows} /></Scroll>
          <Group mt="sm" gap="xs">
            {search.before !== undefined && <Button size="xs" variant="default" onClick={() => set({ before: undefined })}>{words.newest}</Button>}
            {last && data.total > data.rows.length && <Button size="xs" variant="default" onClick={() => void navigate({ search: { ...search, before: last.revision } })}>{words.older}</Button>}
          </Group>
        </>
      )}
      {data && data.refused.length > 0 && !isFiltered && <Refused rows={data.refused} />}
    </>
  )
}

function Reach({ kept, oldest }: { kept: number; oldest: number | null }) {
  const words = useWords()
  if (oldest === null) return <>{words.changesHelp}</>
  return <>{words.changesHelp} {words.changesReach(kept)} <Time at={oldest / 1000} />.</>
}

function Rows({ rows }: { rows: ChangeRow[] }) {
  const words = useWords()
  return (
    <Table highlightOnHover>
      <Table.Thead><Table.Tr>
        <Table.Th>{words.time}</Table.Th><Table.Th>{words.who}</Table.Th><Table.Th>{words.deed}</Table.Th><Table.Th>{words.object}</Table.Th>
        <Table.Th className="hide-narrow">{words.difference}</Table.Th><Table.Th className="numbers hide-narrow">{words.revisionWord}</Table.Th>
      </Table.Tr></Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={row.name}>
            <Table.Td className="nowrap"><Anchor component={Link} to={`/changes/${row.name}`}><Time at={row.at_ms / 1000} /></Anchor></Table.Td>
            <Table.Td className="nowrap">{row.actor ?? words.anybody}<Text size="xs" c="dimmed">{words.ways[row.way as keyof typeof words.ways] ?? row.way}</Text></Table.Td>
            <Table.Td><DeedBadge deed={row.deed} /></Table.Td>
            <Table.Td>
              <Text size="xs" c="dimmed">{kindWord(words, row.kind, row.id)}</Text>
              <ObjectName kind={row.kind} id={row.id} title={row.title} />
            </Table.Td>
            <Table.Td className="hide-narrow"><Differences rows={row.differences} hasMore={row.has_more} /></Table.Td>
            <Table.Td className="numbers hide-narrow">{row.revision}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}

/** What was tried and not done: nothing was written, and nobody keeps it beyond this process. */
function Refused({ rows }: { rows: RefusedWrite[] }) {
  const words = useWords()
  return (
    <section>
      <Title order={2} size="h4" mt="xl" mb={4}>{words.refusedWrites}</Title>
      <Text size="sm" c="dimmed" mb="xs">{words.refusedHelp}</Text>
      <Scroll>
        <Table>
          <Table.Thead><Table.Tr><Table.Th>{words.time}</Table.Th><Table.Th>{words.who}</Table.Th><Table.Th>{words.request}</Table.Th><Table.Th>{words.status}</Table.Th><Table.Th>{words.reason}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {rows.slice(0, 20).map((row, at) => (
              <Table.Tr key={`${row.at_ms} ${at}`}>
                <Table.Td><Time at={row.at_ms / 1000} /></Table.Td>
                <Table.Td>{row.actor ?? words.anybody}<Text size="xs" c="dimmed" className="mono">{row.from}</Text></Table.Td>
                <Table.Td className="mono">{row.method} {row.path}</Table.Td>
                <Table.Td><StatusBadge status={row.status} /></Table.Td>
                <Table.Td><Text size="sm" lang="en">{row.reason}</Text></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Scroll>
    </section>
  )
}
