/** One service of the registry: its instances, one by one or many at once, and what has happened to them. */
import { Anchor, Button, Checkbox, Group, SegmentedControl, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { json, query } from '../../api/client'
import type { RegistryInstance } from '../../api/types'
import '../../ui/registry.css'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { Aliases } from './aliases'
import { Events } from './events'
import { InstanceForm } from './form'
import { useRefusal } from '../../ui/permission'
import { Pager } from '../../ui/pager'
import { SortHead } from '../../ui/sort'
import { CheckedBy, Chips, InstanceState, useNow } from './beat'
import { Bulk, type Deed, useServing } from './bulk'
import { Removal } from './namespace'
import { type ServiceDetails, ServiceForm, servicePath } from './service-form'

const api = getRouteApi('/registry/$namespace/$service')
const ROWS = 200

export function RegistryService() {
  const words = useWords()
  const { namespace, service } = api.useParams()
  const search = api.useSearch()
  const { tab = 'instances', q, page = 1, sort } = search
  const navigate = api.useNavigate()
  const leave = useNavigate()
  const [edited, edit] = useState<RegistryInstance | 'new'>()
  const [about, setAbout] = useState<'edit' | 'delete'>()
  const now = useNow()
  // Known before a dialog asks for it.
  useServing(namespace, service)
  const [ticked, setTicked] = useState<ReadonlySet<string>>(new Set())
  const [bulk, setBulk] = useState<{ deed: Deed; chosen: RegistryInstance[] }>()
  const found = useQuery({
    queryKey: ['instances', namespace, service, q, page, sort],
    refetchInterval: edited || bulk ? false : 2000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: RegistryInstance[]; total: number }>(`/registry/v1/instances${query({ namespace, service, q, sort, page, page_size: ROWS })}`, { signal }),
  })
  const details = useQuery({ queryKey: ['registry-service', namespace, service], refetchInterval: edited || bulk ? false : 2000, queryFn: ({ signal }) => json<ServiceDetails>(servicePath(namespace, service), { signal }) })
  const { data } = found
  const refused = useRefusal('registry')
  const rows = data?.list ?? []
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, page: undefined, ...change }, replace: true })
  const sorting = { sort, choose: (next: string | undefined) => set({ sort: next }) }
  // What a filter hides or what has gone is none of what is done to many.
  const selected = rows.filter((row) => ticked.has(row.id))
  const isAll = rows.length > 0 && selected.length === rows.length
  const tick = (id: string) => {
    const next = new Set(ticked)
    if (!next.delete(id)) next.add(id)
    setTicked(next)
  }
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/registry">{words.registryServices}</Anchor> / {namespace}</Text>
      <ScreenHead title={service} note={details.data && words.naming.summary(details.data.instances)}>
        <Button component={Link} to="/registry/rules" search={{ service } as never} size="xs" variant="default">{words.rules}</Button>
        <Button size="xs" variant="default" disabled={refused !== undefined || details.data === undefined} title={refused} onClick={() => setAbout('delete')}>{words.remove}</Button>
        <Button size="xs" variant="default" disabled={refused !== undefined || details.data === undefined} title={refused} onClick={() => setAbout('edit')}>{words.edit}</Button>
        <Button size="xs" data-new disabled={refused !== undefined} title={refused} onClick={() => edit('new')}>{words.register}</Button>
      </ScreenHead>
      <SegmentedControl mb="md" size="xs" aria-label={words.view} value={tab} data={[{ value: 'instances', label: words.instances }, { value: 'aliases', label: words.aliases }, { value: 'events', label: words.events }]}
        onChange={(value) => void navigate({ search: value === 'events' || value === 'aliases' ? { tab: value } : {}, replace: true })} />
      {tab === 'instances' && (
        <Group mb="md" gap="sm">
          <TextInput data-filter className="filterbox" aria-label={words.filterInstances} placeholder={words.filterInstances} value={q ?? ''} onChange={(event) => set({ q: event.currentTarget.value || undefined })} />
          {selected.length > 0 && (
            <Group gap="xs" role="group" aria-label={words.selectedInstances(selected.length)}>
              <Text size="sm">{words.selectedInstances(selected.length)}</Text>
              <Button size="xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setBulk({ deed: 'isolate', chosen: selected })}>{words.isolate}</Button>
              <Button size="xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setBulk({ deed: 'rejoin', chosen: selected })}>{words.rejoin}</Button>
              <Button size="xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setBulk({ deed: 'weight', chosen: selected })}>{words.setWeight}</Button>
              <Button size="xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setBulk({ deed: 'remove', chosen: selected })}>{words.naming.deregister}</Button>
            </Group>
          )}
        </Group>
      )}
      {tab === 'events' ? <Events namespace={namespace} service={service} /> : tab === 'aliases' ? <Aliases namespace={namespace} service={service} page={page} turn={(to) => void navigate({ search: { tab, page: to > 1 ? to : undefined } })} /> : <>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : rows.length === 0 ? (q || data.total > 0 ? <NoMatch filters={[q, data.total > 0 ? `${words.goToPage} ${page}` : undefined]} clear={() => void navigate({ search: { sort } })} /> : <Empty>{words.naming.noInstances} <Button variant="subtle" size="xs" disabled={refused !== undefined} onClick={() => edit('new')}>{words.register}</Button></Empty>) : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr>
              <Table.Th w={36}><Checkbox size="xs" aria-label={words.tickAll} checked={isAll} indeterminate={selected.length > 0 && !isAll} onChange={() => setTicked(isAll ? new Set() : new Set(rows.map((row) => row.id)))} /></Table.Th>
              <SortHead by="healthy" sorting={sorting}>{words.state}</SortHead><SortHead by="host" sorting={sorting}>{words.address}</SortHead><Table.Th>{words.naming.checkedBy}</Table.Th><SortHead by="version" sorting={sorting}>{words.version}</SortHead>
              <SortHead by="weight" sorting={sorting} className="numbers">{words.weight}</SortHead><Table.Th>{words.metadata}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td><Checkbox size="xs" aria-label={words.tick(`${row.host}:${row.port}`)} checked={ticked.has(row.id)} onChange={() => tick(row.id)} /></Table.Td>
                  <Table.Td data-label={words.state}><InstanceState instance={row} /></Table.Td>
                  <Table.Td data-label={words.address} className="mono whole" title={row.id}>{row.host}:{row.port} {row.protocol}</Table.Td>
                  <Table.Td data-label={words.naming.checkedBy}><CheckedBy instance={row} now={now} /></Table.Td>
                  <Table.Td data-label={words.version}>{row.version}</Table.Td>
                  <Table.Td data-label={words.weight} className="numbers">{row.weight}</Table.Td>
                  <Table.Td data-label={words.metadata} className={Object.keys(row.metadata).length === 0 ? 'blank' : undefined}><Chips metadata={row.metadata} /></Table.Td>
                  <Table.Td><Group gap={4} wrap="nowrap">
                    <Button size="compact-xs" data-isolate variant="default" disabled={refused !== undefined} title={refused} onClick={() => setBulk({ deed: row.isolated ? 'rejoin' : 'isolate', chosen: [row] })}>{row.isolated ? words.rejoin : words.isolate}</Button>
                    <Button size="compact-xs" data-weight variant="default" disabled={refused !== undefined} title={refused} onClick={() => edit(row)} aria-label={`${words.edit} ${row.host}:${row.port}`}>{words.edit}</Button>
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Pager page={page} rows={ROWS} shown={rows.length} total={data.total} turn={(to) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })} />
        </Scroll>
      )}
      </>}
      {edited && <InstanceForm namespace={namespace} service={service} instance={edited === 'new' ? undefined : edited} close={() => edit(undefined)} />}
      {bulk && <Bulk deed={bulk.deed} chosen={bulk.chosen} namespace={namespace} service={service} close={() => setBulk(undefined)} done={() => { setBulk(undefined); setTicked(new Set()) }} />}
      {about === 'edit' && details.data && <ServiceForm service={details.data} close={() => setAbout(undefined)} />}
      {about === 'delete' && <Removal name={service} path={servicePath(namespace, service)} help={words.naming.deleteServiceHelp(data?.total ?? 0)} close={() => setAbout(undefined)} done={() => void leave({ to: '/registry' })} />}
    </>
  )
}
