/** All governance rules: searched, ordered and switched; what one says in a sentence. */
import { Anchor, Button, Group, NativeSelect, Switch, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { ApiError, call, json, query } from '../../api/client'
import { setAt } from '../../lib/pointer'
import { memberText } from '../../lib/json-text'
import '../../ui/registry.css'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { segmentOf } from '../../lib/segment'
import { Pager } from '../../ui/pager'
import { SortHead } from '../../ui/sort'
import { Time } from '../../ui/time'
import { RULE_KINDS, type Rule } from './kinds'
import { hasSwitch } from './rule'
import { sentencesOf } from './sentence'
import { useRefusal } from '../../ui/permission'

const api = getRouteApi('/registry/rules')
const ROWS = 100

export function RegistryRules() {
  const words = useWords()
  const client = useQueryClient()
  const search = api.useSearch()
  const { kind, service, q, page = 1, sort } = search
  const navigate = api.useNavigate()
  const go = useNavigate()
  const [refusal, setRefusal] = useState<unknown>()
  const found = useQuery({
    queryKey: ['rules', search],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: Rule[]; total: number }>(`/registry/v1/rules${kind ? `/${kind}` : ''}${query({ service, q, sort, page, page_size: ROWS })}`, { signal }),
  })
  const { data, error } = found
  const refused = useRefusal('registry')
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, page: undefined, ...change }, replace: true })
  const sorting = { sort, choose: (next: string | undefined) => set({ sort: next }) }
  const isFiltered = kind !== undefined || service !== undefined || q !== undefined
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
  const reorder = async (rule: Rule, order: number) => {
    setRefusal(undefined)
    const path = `/registry/v1/rules/${rule.kind}/${encodeURIComponent(rule.id)}`
    try {
      const text = memberText((await call(path)).text, 'rule') ?? '{}'
      await call(path, { method: 'PUT', body: setAt(text, ['priority'], String(order)) })
      await client.invalidateQueries({ queryKey: ['rules'] })
    } catch (reason) {
      setRefusal(reason)
    }
  }
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/registry">{words.registryServices}</Anchor> / {words.rules}</Text>
      <ScreenHead title={words.rules} note={words.rulesHelp}>
        <Button size="sm" data-new component={Link} to={`/registry/rules/${kind ?? 'routing'}/+`} disabled={refused !== undefined} title={refused}>{words.newOf(words.shenyuOne.rule)}</Button>
      </ScreenHead>
      <Group mb="md" align="flex-end">
        <NativeSelect label={words.kind} value={kind ?? ''} onChange={(event) => set({ kind: event.currentTarget.value || undefined })}
          data={[{ value: '', label: words.any }, ...RULE_KINDS.map((one) => ({ value: one, label: words.ruleKinds[one] }))]} />
        <TextInput label={words.service} value={service ?? ''} onChange={(event) => set({ service: event.currentTarget.value || undefined })} />
        <TextInput data-filter label={words.filter} value={q ?? ''} onChange={(event) => set({ q: event.currentTarget.value || undefined })} />
        {data && <Text size="sm" c="dimmed" aria-live="polite">{words.rulesCount(data.total)}</Text>}
      </Group>
      {refusal !== undefined && <ErrorBox error={refusal} />}
      {isOff ? <Empty>{words.registryOff}</Empty> : found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? (isFiltered || data.total > 0 ? <NoMatch filters={[kind && (words.ruleKinds[kind as keyof typeof words.ruleKinds] ?? kind), service, q, data.total > 0 ? `${words.goToPage} ${page}` : undefined]} clear={() => void navigate({ search: { sort } })} /> : <Empty>{words.noRules}</Empty>) : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr>
              <SortHead by="enabled" sorting={sorting}>{words.state}</SortHead><SortHead by="name" sorting={sorting}>{words.ruleSays}</SortHead><SortHead by="kind" sorting={sorting}>{words.kind}</SortHead>
              <SortHead by="priority" sorting={sorting}>{words.naming.order}</SortHead><SortHead by="namespace" sorting={sorting}>{words.namespace}</SortHead><SortHead by="changed" sorting={sorting} isNewestFirst>{words.changed}</SortHead><Table.Th><span className="unseen">{words.edit}</span></Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.list.map((rule) => (
                <Table.Tr key={`${rule.kind}/${rule.id}`}>
                  <Table.Td data-label={words.state}>{hasSwitch(rule.kind) ? <Switch aria-label={`${words.on}: ${rule.name || rule.id}`} checked={rule.enabled} disabled={refused !== undefined} title={refused} onChange={(event) => void turn(rule, event.currentTarget.checked)} /> : <Text size="sm" c="dimmed">{words.naming.alwaysOn}</Text>}</Table.Td>
                  <Table.Td data-label={words.ruleSays} className="whole-row"><div><p className="rulesays">{sentencesOf(rule.kind, rule.rule, words).join(' ') || words.naming.saysNothing}</p><Anchor size="sm" component={Link} to={`/registry/rules/${rule.kind}/${segmentOf(rule.id)}`}>{rule.name || rule.id}</Anchor></div></Table.Td>
                  <Table.Td className="nowrap" data-label={words.kind}>{words.ruleKinds[rule.kind] ?? rule.kind}</Table.Td>
                  <Table.Td data-label={words.naming.order}><Order rule={rule} refused={refused} set={(order) => void reorder(rule, order)} /></Table.Td>
                  <Table.Td data-label={words.namespace} className="mono">{rule.namespace}</Table.Td>
                  <Table.Td data-label={words.changed} className="nowrap"><Text size="sm" c="dimmed"><Time at={rule.update_time} /></Text></Table.Td>
                  <Table.Td><Button size="compact-xs" variant="default" onClick={() => void go({ to: `/registry/rules/${rule.kind}/${segmentOf(rule.id)}` })} aria-label={`${words.edit} ${rule.name || rule.id}`}>{words.edit}</Button></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          <Pager page={page} rows={ROWS} shown={data.list.length} total={data.total} turn={(to) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })} />
        </Scroll>
      )}
    </>
  )
}

/** The order of a rule among others of its kind, the smallest first; of kinds that have one. */
function Order({ rule, refused, set }: { rule: Rule; refused: string | undefined; set: (order: number) => void }) {
  const words = useWords()
  const has = typeof rule.rule === 'object' && rule.rule !== null && 'priority' in rule.rule
  if (!has) return <Text size="sm" c="dimmed">–</Text>
  const leave = (text: string) => {
    const order = Number(text)
    if (text.trim() !== '' && Number.isInteger(order) && order >= 0 && order !== rule.priority) set(order)
  }
  return <TextInput key={rule.priority} size="xs" className="order" inputMode="numeric" aria-label={`${words.naming.order}: ${rule.name || rule.id}`} title={words.naming.orderHelp} defaultValue={rule.priority} disabled={refused !== undefined} onBlur={(event) => leave(event.currentTarget.value)} onKeyDown={(event) => event.key === 'Enter' && leave(event.currentTarget.value)} />
}
