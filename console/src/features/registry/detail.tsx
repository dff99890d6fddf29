import { Anchor, Button, Group, SegmentedControl, Stack, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { call, json, query } from '../../api/client'
import type { RegistryInstance } from '../../api/types'
import { Dialog } from '../../ui/dialog'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'
import { Events } from './events'
import { InstanceForm } from './form'
import { useRefusal } from '../../ui/permission'

const api = getRouteApi('/registry/$namespace/$service')
const ROWS = 500

export function RegistryService() {
  const words = useWords()
  const { namespace, service } = api.useParams()
  const { tab = 'instances' } = api.useSearch()
  const navigate = api.useNavigate()
  const [edited, edit] = useState<RegistryInstance | 'new'>()
  const [chosen, choose] = useState<RegistryInstance>()
  const found = useQuery({
    queryKey: ['instances', namespace, service],
    refetchInterval: chosen || edited ? false : 2000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: RegistryInstance[]; total: number }>(`/registry/v1/instances${query({ namespace, service, page_size: ROWS })}`, { signal }),
  })
  const { data } = found
  const refused = useRefusal('registry')
  const rows = data?.list ?? []
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/registry">{words.registryServices}</Anchor> / {namespace}</Text>
      <ScreenHead title={service} note={data && words.instancesHealthy(rows.filter((it) => it.healthy && !it.isolated).length, data.total)}>
        <Button component={Link} to="/registry/rules" search={{ service } as never} size="xs" variant="default">{words.rules}</Button>
        <Button size="xs" data-new disabled={refused !== undefined} title={refused} onClick={() => edit('new')}>{words.register}</Button>
      </ScreenHead>
      <SegmentedControl mb="md" size="xs" aria-label={words.view} value={tab} data={[{ value: 'instances', label: words.instances }, { value: 'events', label: words.events }]}
        onChange={(value) => void navigate({ search: value === 'events' ? { tab: 'events' } : {}, replace: true })} />
      {tab === 'events' ? <Events namespace={namespace} service={service} /> : <>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : rows.length === 0 ? <Empty>{words.emptyKind}</Empty> : (
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead><Table.Tr>
              <Table.Th>{words.state}</Table.Th><Table.Th>{words.address}</Table.Th><Table.Th>{words.version}</Table.Th>
              <Table.Th className="numbers">{words.weight}</Table.Th><Table.Th className="hide-narrow">{words.id}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td><Group gap={4}><StateBadge state={row.healthy ? 'good' : 'bad'} label={row.healthy ? words.healthy : words.unhealthy} />{row.isolated && <StateBadge state="off" label={words.isolated} />}</Group></Table.Td>
                  <Table.Td className="mono whole">{row.host}:{row.port} {row.protocol}</Table.Td>
                  <Table.Td>{row.version}</Table.Td>
                  <Table.Td className="numbers">{row.weight}</Table.Td>
                  <Table.Td className="mono hide-narrow">{row.id}</Table.Td>
                  <Table.Td><Group gap={4} wrap="nowrap">
                    <Button size="compact-xs" data-isolate variant="default" disabled={refused !== undefined} title={refused} onClick={() => choose(row)}>{row.isolated ? words.rejoin : words.isolate}</Button>
                    <Button size="compact-xs" data-weight variant="default" disabled={refused !== undefined} title={refused} onClick={() => edit(row)} aria-label={`${words.edit} ${row.host}:${row.port}`}>{words.edit}</Button>
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {data.total > rows.length && <Text size="sm" c="dimmed">{words.shown(1, rows.length, data.total)}</Text>}
        </Scroll>
      )}
      </>}
      {edited && <InstanceForm namespace={namespace} service={service} instance={edited === 'new' ? undefined : edited} close={() => edit(undefined)} />}
      {chosen && <Isolation instance={chosen} all={rows} close={() => choose(undefined)} />}
    </>
  )
}

function Isolation({ instance, all, close }: { instance: RegistryInstance; all: RegistryInstance[]; close: () => void }) {
  const words = useWords()
  const client = useQueryClient()
  const [error, setError] = useState<unknown>()
  const [typed, setTyped] = useState('')
  const left = all.filter((it) => it.id !== instance.id && it.healthy && !it.isolated).length
  const isLast = !instance.isolated && left === 0
  const apply = async () => {
    try {
      await call(`/registry/v1/instances/${encodeURIComponent(instance.id)}`, { method: 'PATCH', body: JSON.stringify({ isolated: !instance.isolated }) })
      await client.invalidateQueries({ queryKey: ['instances'] })
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  const what = `${instance.host}:${instance.port}`
  return (
    <Dialog onClose={close} title={instance.isolated ? `${words.rejoin}: ${what}` : words.isolateTitle(what)}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        {!instance.isolated && <Text size="sm">{words.isolateHelp(left, all.length)}</Text>}
        {isLast && <TextInput data-autofocus label={words.isolateLast} placeholder={instance.service} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{words.cancel}</Button>
          <Button data-autofocus={!isLast || undefined} disabled={isLast && typed !== instance.service} onClick={() => void apply()}>{instance.isolated ? words.rejoin : words.isolate}</Button>
        </Group>
      </Stack>
    </Dialog>
  )
}
