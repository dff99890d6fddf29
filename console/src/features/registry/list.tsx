/** The services of the registry, with how their instances are. Instances themselves are seen with their service. */
import { Anchor, Button, Group, SegmentedControl, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError, json, query } from '../../api/client'
import type { Counted, RegistryService } from '../../api/types'
import { useOverview } from '../../api/live'
import { quoted } from '../../lib/curl'
import { segmentOf } from '../../lib/segment'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead, StateBadge } from '../../ui/states'
import { SortHead } from '../../ui/sort'
import { useRefusal } from '../../ui/permission'
import '../../ui/registry.css'
import { useWords } from '../../words/words'
import { NamespaceForm, Namespaces } from './namespace'
import { ServiceForm } from './service-form'

const api = getRouteApi('/registry')
const ROWS = 100

export function RegistryServices() {
  const words = useWords()
  const search = api.useSearch()
  const { q, page = 1, sort, tab } = search
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['registry', q, page, sort],
    enabled: tab === undefined,
    refetchInterval: 5000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: RegistryService[]; total: number }>(`/registry/v1/services${query({ q, sort, page, page_size: ROWS })}`, { signal }),
  })
  const { data, error } = found
  const isOff = error instanceof ApiError && error.status === 404
  const turn = (to: number) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, page: undefined, ...change }, replace: true })
  const refused = useRefusal('registry')
  const [made, make] = useState<'namespace' | 'service'>()
  const sorting = { sort, choose: (next: string | undefined) => set({ sort: next }) }
  return (
    <>
      <ScreenHead title={words.registryServices}>
        {!isOff && <Button size="sm" variant="default" disabled={refused !== undefined} title={refused} onClick={() => make('namespace')}>{words.naming.newNamespace}</Button>}
        {!isOff && <Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => make('service')}>{words.naming.newService}</Button>}
      </ScreenHead>
      {isOff ? <Empty>{words.registryOff}</Empty> : (
        <>
          <Group mb="md" gap="sm">
          <SegmentedControl size="xs" aria-label={words.view} value={tab ?? 'services'} data={[{ value: 'services', label: words.naming.services }, { value: 'namespaces', label: words.naming.namespaces }]}
            onChange={(value) => void navigate({ search: value === 'namespaces' ? { tab: 'namespaces' } : {}, replace: true })} />
          <TextInput data-filter className="filterbox" aria-label={words.filterServices} placeholder={words.filterServices} value={q ?? ''} onChange={(event) => set({ q: event.currentTarget.value || undefined })} />
          </Group>
          {tab === 'namespaces' ? <Namespaces q={q} page={page} turn={turn} clear={() => void navigate({ search: { tab } })} refused={refused} /> : <>
          {found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
          {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? (q || data.total > 0 ? <NoMatch filters={[q, data.total > 0 ? `${words.goToPage} ${page}` : undefined]} clear={() => void navigate({ search: { sort } })} /> : <FirstService />) : (
            <Scroll>
              <Table highlightOnHover>
                <Table.Thead><Table.Tr>
                  <SortHead by="name" sorting={sorting}>{words.service}</SortHead><SortHead by="namespace" sorting={sorting}>{words.namespace}</SortHead>
                  <SortHead by="instances" sorting={sorting} isNewestFirst>{words.instances}</SortHead><SortHead by="healthy" sorting={sorting}>{words.state}</SortHead>
                </Table.Tr></Table.Thead>
                <Table.Tbody>
                  {data.list.map((row) => (
                    <Table.Tr key={`${row.namespace}/${row.name}`}>
                      <Table.Td><Anchor component={Link} to={`/registry/${segmentOf(row.namespace)}/${segmentOf(row.name)}`}>{row.name}</Anchor></Table.Td>
                      <Table.Td>{row.namespace}</Table.Td>
                      <Table.Td><InstanceCounts counted={row.instances} /></Table.Td>
                      <Table.Td><ServiceState row={row} /></Table.Td>
                    </Table.Tr>
                  ))}
                </Table.Tbody>
              </Table>
              <Pager page={page} rows={ROWS} shown={data.list.length} total={data.total} turn={turn} />
            </Scroll>
          )}
          </>}
        </>
      )}
      {made === 'namespace' && <NamespaceForm close={() => make(undefined)} />}
      {made === 'service' && <ServiceForm close={() => make(undefined)} />}
    </>
  )
}

/** The ways in which the first service comes to be here. */
function FirstService() {
  const words = useWords()
  const { listeners } = useOverview().data ?? {}
  const port = (name: string, usual: string) => (listeners?.[name]?.[0] ?? usual).replace('0.0.0.0', '127.0.0.1')
  const ways: [string, string][] = [
    ['Go', `provider, _ := polaris.NewProviderAPIByAddress(${JSON.stringify(port('registry_grpc', '127.0.0.1:8091'))}) // github.com/polarismesh/polaris-go\nregistration := &polaris.InstanceRegisterRequest{}\nregistration.Namespace, registration.Service, registration.Host, registration.Port = "default", "orders", "10.0.0.7", 8080\nprovider.RegisterInstance(registration)`],
    ['Java', `# polaris.yml of polaris-java, or spring.cloud.polaris.address=grpc://${port('registry_grpc', '127.0.0.1:8091')}\nglobal:\n  serverConnector:\n    addresses: [${port('registry_grpc', '127.0.0.1:8091')}]`],
    ['curl', `curl -X POST ${quoted(`${location.origin}/registry/v1/instances`)} -H "X-API-KEY: $ADMIN_KEY" \\\n  -d '{"service": "orders", "host": "10.0.0.7", "port": 8080, "healthy": true}'`],
    ['CLI', 'tollhouse registry register orders 10.0.0.7:8080'],
  ]
  return <Empty>{words.registryEmpty}{ways.map(([name, text]) => <span key={name}><strong className="way" lang="en">{name}</strong><code className="example" lang="en">{text}</code></span>)}</Empty>
}

/** State of a service: of its best instances, where one that nothing checks is not called healthy. */
function ServiceState({ row: { mass_expiry, instances } }: { row: RegistryService }) {
  const words = useWords()
  const { total, healthy, unchecked, isolated } = instances
  if (mass_expiry) return <StateBadge state="warn" label={words.protection} />
  if (healthy > unchecked) return <StateBadge state="good" label={words.healthy} />
  if (unchecked > 0) return <StateBadge state="off" label={words.naming.notChecked} />
  if (total > isolated) return <StateBadge state="bad" label={words.unhealthy} />
  return total > 0 ? <StateBadge state="warn" label={words.isolated} /> : <StateBadge state="off" label={words.none} />
}

/** All states, with words: an unhealthy instance is never hidden. */
function InstanceCounts({ counted }: { counted: Counted }) {
  const words = useWords()
  return <Text size="sm">{words.naming.summary(counted)}</Text>
}
