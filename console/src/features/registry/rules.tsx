import { Anchor, Button, Group, NativeSelect, Switch, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError, call, json, query } from '../../api/client'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { RULE_KINDS, type Rule } from './rule'
import { useRefusal } from '../../ui/permission'

const api = getRouteApi('/registry/rules')

export function RegistryRules() {
  const words = useWords()
  const client = useQueryClient()
  const { kind, service } = api.useSearch()
  const navigate = api.useNavigate()
  const [refusal, setRefusal] = useState<unknown>()
  const found = useQuery({
    queryKey: ['rules', kind, service],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: Rule[]; total: number }>(`/registry/v1/rules${kind ? `/${kind}` : ''}${query({ service, page_size: 500 })}`, { signal }),
  })
  const { data, error } = found
  const refused = useRefusal('registry')
  const isOff = error instanceof ApiError && error.status === 404
  const turn = async (rule: Rule, enabled: boolean) => {
    setRefusal(undefined)
    try {
      await call(`/registry/v1/rules/${rule.kind}/${encodeURIComponent(rule.id)}`, { method: 'PATCH', body: JSON.stringify({ enabled }) })
      await client.invalidateQueries({ queryKey: ['rules'] })
    } catch (reason) {
      setRefusal(reason)
    }
  }
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/registry">{words.registryServices}</Anchor> / {words.rules}</Text>
      <ScreenHead title={words.rules} note={words.rulesHelp}>
        <Button size="sm" data-new component={Link} to={`/registry/rules/${kind ?? 'routing'}/+`} disabled={refused !== undefined} title={refused}>{words.create}</Button>
      </ScreenHead>
      <Group mb="md" align="flex-end">
        <NativeSelect label={words.kind} value={kind ?? ''} onChange={(event) => void navigate({ search: { service, kind: event.currentTarget.value || undefined }, replace: true })}
          data={[{ value: '', label: words.any }, ...RULE_KINDS.map((one) => ({ value: one, label: words.ruleKinds[one] }))]} />
        <TextInput data-filter label={words.service} value={service ?? ''} onChange={(event) => void navigate({ search: { kind, service: event.currentTarget.value || undefined }, replace: true })} />
      </Group>
      {refusal !== undefined && <ErrorBox error={refusal} />}
      {isOff ? <Empty>{words.registryOff}</Empty> : found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? (kind || service ? <NoMatch filters={[kind && (words.ruleKinds[kind as keyof typeof words.ruleKinds] ?? kind), service]} clear={() => void navigate({ search: {} })} /> : <Empty>{words.noRules}</Empty>) : (
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th>{words.kind}</Table.Th><Table.Th>{words.namespace}</Table.Th><Table.Th>{words.on}</Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.list.map((rule) => (
                <Table.Tr key={`${rule.kind}/${rule.id}`}>
                  <Table.Td><Anchor component={Link} to={`/registry/rules/${rule.kind}/${encodeURIComponent(rule.id)}`}>{rule.name || rule.id}</Anchor><Text size="xs" c="dimmed" className="mono">{rule.id}</Text></Table.Td>
                  <Table.Td>{words.ruleKinds[rule.kind] ?? rule.kind}</Table.Td>
                  <Table.Td>{rule.namespace}</Table.Td>
                  <Table.Td><Switch aria-label={`${words.on}: ${rule.name || rule.id}`} checked={rule.enabled} disabled={refused !== undefined} title={refused} onChange={(event) => void turn(rule, event.currentTarget.checked)} /></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
      )}
    </>
  )
}
