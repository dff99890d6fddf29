/** Groups of configuration files, and the search over all files. Files themselves are seen with their group. */
import { Anchor, Badge, Button, Group, NativeSelect, Stack, Table, Text, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError } from '../../api/client'
import { fetchArchive, PAGE_ROWS, readPolaris } from '../../api/polaris'
import { saveAs } from '../../lib/save'
import { segmentOf } from '../../lib/segment'
import { Pager } from '../../ui/pager'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import '../../ui/registry.css'
import { useWords } from '../../words/words'
import { GroupDeletion, GroupForm } from './group-form'
import { ImportForm } from './import-form'
import { type ConfigFile, type ConfigGroup, secondsOf, useGroups } from './queries'
import { matchesIn } from './tree'

const api = getRouteApi('/config')
const PLACES = ['group', 'name', 'content', 'tags'] as const
export type SearchPlace = (typeof PLACES)[number]

export function ConfigGroups() {
  const words = useWords()
  const say = words.files
  const { q, page = 1, in: place = 'group' } = api.useSearch()
  const navigate = api.useNavigate()
  const refused = useRefusal('registry')
  const [edited, edit] = useState<ConfigGroup | 'new'>()
  const [isImporting, setImporting] = useState(false)
  return (
    <>
      <ScreenHead title={say.title} note={say.help}>
        <Button size="sm" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setImporting(true)}>{say.import}</Button>
        <Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => edit('new')}>{say.newGroup}</Button>
      </ScreenHead>
      <Group mb="md" gap="xs" align="flex-end">
        <NativeSelect aria-label={say.searchIn} value={place} data={PLACES.map((one) => ({ value: one, label: say.places[one] }))}
          onChange={(event) => void navigate({ search: { q, in: event.currentTarget.value === 'group' ? undefined : (event.currentTarget.value as SearchPlace) }, replace: true })} />
        <TextInput data-filter className="filterbox" aria-label={say.search} placeholder={say.placeHints[place]} value={q ?? ''}
          onChange={(event) => void navigate({ search: { in: place === 'group' ? undefined : place, q: event.currentTarget.value || undefined }, replace: true })} />
      </Group>
      {place !== 'group' && q ? <Found q={q} place={place} /> : <Groups q={place === 'group' ? q : undefined} page={page} edit={edit} refused={refused} />}
      {edited && <GroupForm group={edited === 'new' ? undefined : edited} close={() => edit(undefined)} />}
      {isImporting && <ImportForm close={() => setImporting(false)} />}
    </>
  )
}

function Groups({ q, page, edit, refused }: { q: string | undefined; page: number; edit: (group: ConfigGroup | 'new') => void; refused: string | undefined }) {
  const words = useWords()
  const say = words.files
  const navigate = api.useNavigate()
  const found = useGroups(page, q)
  const [deleted, setDeleted] = useState<ConfigGroup>()
  const [error, setError] = useState<unknown>()
  const { data } = found
  const list = data?.configFileGroups ?? []
  if (found.error instanceof ApiError && found.error.status === 404) return <Empty>{words.registryOff}</Empty>
  const exported = (group: ConfigGroup) =>
    fetchArchive('config/v1/configfiles/export', { namespace: group.namespace, groups: [group.name] })
      .then((archive) => { saveAs(`${group.namespace}-${group.name}.zip`, archive, 'application/zip'); setError(undefined) }, setError)
  return (
    <>
      {error !== undefined && <ErrorBox error={error} />}
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : list.length === 0 ? (q || data.total > 0 ? <NoMatch filters={[q]} clear={() => void navigate({ search: {} })} /> : <Empty>{say.noGroups} <Button variant="subtle" size="xs" disabled={refused !== undefined} onClick={() => edit('new')}>{say.newGroup}</Button></Empty>) : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr>
              <Table.Th>{say.group}</Table.Th><Table.Th>{words.namespace}</Table.Th><Table.Th className="numbers">{say.files}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th>{words.changed}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {list.map((group) => (
                <Table.Tr key={group.id}>
                  <Table.Td data-label={say.group}><Anchor fw={600} component={Link} to={`/config/${segmentOf(group.namespace)}/${segmentOf(group.name)}`}>{group.name}</Anchor></Table.Td>
                  <Table.Td data-label={words.namespace} className="mono">{group.namespace}</Table.Td>
                  <Table.Td data-label={say.files} className="numbers">{group.fileCount}</Table.Td>
                  <Table.Td data-label={words.comment}>{group.comment}</Table.Td>
                  <Table.Td data-label={words.changed} className="nowrap"><Text size="sm" c="dimmed" component="div"><Time at={secondsOf(group.modifyTime)} />{group.modifyBy && ` · ${group.modifyBy}`}</Text></Table.Td>
                  <Table.Td><Group gap={4} wrap="nowrap" justify="flex-end">
                    <Button size="compact-xs" variant="default" onClick={() => void exported(group)} aria-label={`${say.export} ${group.name}`}>{say.export}</Button>
                    <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => edit(group)} aria-label={`${words.edit} ${group.name}`}>{words.edit}</Button>
                    <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setDeleted(group)} aria-label={`${words.remove} ${group.name}`}>{words.remove}</Button>
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Pager page={page} rows={PAGE_ROWS} shown={list.length} total={data.total} turn={(to) => void navigate({ search: { q, page: to > 1 ? to : undefined } })} />
        </Scroll>
      )}
      {deleted && <GroupDeletion group={deleted} close={() => setDeleted(undefined)} />}
    </>
  )
}

/** Files of all groups that have a text in their name, content or tags. */
function Found({ q, place }: { q: string; place: SearchPlace }) {
  const words = useWords()
  const say = words.files
  const navigate = api.useNavigate()
  const values = { name: { name: `*${q}*` }, content: { content: q }, tags: { tags: q.replace('=', ',') }, group: {} }[place]
  const found = useQuery({
    queryKey: ['config-search', place, q],
    queryFn: ({ signal }) => readPolaris<{ total: number; configFiles?: ConfigFile[] }>('config/v1/configfiles/search', { ...values, limit: PAGE_ROWS }, { signal }),
  })
  const { data } = found
  if (found.isError) return <ErrorBox error={found.error} retry={() => void found.refetch()} />
  if (data === undefined) return <Loading />
  const files = data.configFiles ?? []
  if (files.length === 0) return <NoMatch filters={[q]} clear={() => void navigate({ search: {} })} />
  return (
    <Stack gap="xs">
      <Text size="sm" c="dimmed" aria-live="polite">{say.foundFiles(data.total)}</Text>
      {files.map((file) => (
        <section key={file.id} className="card" aria-label={file.name}>
          <Group justify="space-between" gap="xs">
            <span><Anchor fw={600} component={Link} to={`/config/${segmentOf(file.namespace)}/${segmentOf(file.group)}`} search={{ file: file.name } as never}>{file.name}</Anchor> <Text span size="sm" c="dimmed">{file.namespace} / {file.group}</Text></span>
            <Group gap={4}>{file.tags.map((tag) => <Badge key={tag.key} variant="default" tt="none">{tag.key}={tag.value}</Badge>)}</Group>
          </Group>
          {place === 'content' && matchesIn(file.content, q).map((match) => <Text key={match.line} size="sm" className="mono" mt={4}><Text span c="dimmed" inherit>{match.line}</Text> {match.text}</Text>)}
        </section>
      ))}
    </Stack>
  )
}
