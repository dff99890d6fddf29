/** ShenYu's objects of a kind. */
import { Anchor, Button, Group, NativeSelect, Table, Text, TextInput } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ApiError } from '../../api/client'
import { useRefusal } from '../../ui/permission'
import { Count } from '../../ui/count'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead, StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'
import { SHENYU_KINDS, type ShenyuKind } from './document'
import { ROWS, type Row, useRows } from './queries'

const api = getRouteApi('/shenyu/$kind')

/** Plugins that a list offers to choose from: there are some dozens. */
const PLUGINS = 500

export function ShenyuObjects() {
  const words = useWords()
  const { kind: asked } = api.useParams()
  const search = api.useSearch()
  const navigate = api.useNavigate()
  const kind = SHENYU_KINDS.find((one) => one === asked) ?? 'selector'
  const plugins = useRows('plugin', {}, PLUGINS)
  const found = useRows(kind, search)
  const { data, error } = found
  const refused = useRefusal()
  const { page = 1 } = search
  const isOff = error instanceof ApiError && error.status === 404
  const turn = (to: number) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })
  // A rule is one of a selector, and is made there.
  const canCreate = kind === 'meta-data' || kind === 'appAuth' || kind === 'selector'
  return (
    <>
      <ScreenHead title={words.shenyuKinds[kind]} note={words.shenyuHelp[kind]}>
        {canCreate && <Button size="sm" data-new component={Link} to={`/shenyu/${kind}/+`} search={{ in: search.in } as never} disabled={refused !== undefined} title={refused}>{words.newOf(words.shenyuOne[kind])}</Button>}
      </ScreenHead>
      <Group mb="md" gap="sm" align="flex-end">
        {kind === 'selector' && (
          <NativeSelect
            label={words.plugin} value={search.in ?? ''} onChange={(event) => void navigate({ search: { in: event.currentTarget.value || undefined } })}
            data={[{ value: '', label: words.any }, ...(plugins.data?.rows ?? []).map((row) => ({ value: row.id, label: String(row.name) }))]}
          />
        )}
        <TextInput data-filter label={words.filterBy(words.shenyuFilters[kind])} value={search.q ?? ''} onChange={(event) => void navigate({ search: { ...search, page: undefined, q: event.currentTarget.value || undefined }, replace: true })} />
        {data && <Count text={words.total(data.total)} asked={JSON.stringify([kind, search])} isOld={found.isPlaceholderData} />}
      </Group>
      {isOff ? <Empty><span lang="en">{error.message}</span></Empty> : found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.rows.length === 0 ? (
        search.q ? <NoMatch filters={[search.q]} clear={() => void navigate({ search: {} })} /> : <Empty>{kind === 'selector' && search.in === undefined ? words.shenyuChoose : words.shenyuNone}</Empty>
      ) : (
        <>
          <Scroll><Rows kind={kind} rows={data.rows} /></Scroll>
          <Pager page={page} rows={ROWS} shown={data.rows.length} total={data.total} turn={turn} />
        </>
      )}
    </>
  )
}

interface Condition { paramType?: string; operator?: string; paramName?: string; paramValue?: string }

/** What conditions ask for, as people read it. */
const conditionsOf = (row: Row) => ((row.selectorConditions ?? row.ruleConditions ?? []) as Condition[])
  .map(({ paramType, operator, paramName, paramValue }) => [paramType, paramName && paramName !== '/' ? paramName : '', operator, paramValue].filter(Boolean).join(' '))

/** Objects of a kind; selectors lead to their rules. */
export function Rows({ kind, rows }: { kind: ShenyuKind; rows: Row[] }) {
  const words = useWords()
  const hasConditions = kind === 'selector' || kind === 'rule'
  const text = (row: Row) => (kind === 'meta-data' ? [row.rpcType, row.serviceName, row.methodName].filter(Boolean).join(' · ') : kind === 'appAuth' ? String(row.userId ?? row.extInfo ?? '') : String(row.role ?? ''))
  return (
    <Table highlightOnHover>
      <Table.Thead><Table.Tr>
        <Table.Th>{words.name}</Table.Th>
        <Table.Th>{hasConditions ? words.shenyuConditions : words.shenyuWhat}</Table.Th>
        {kind === 'selector' && <Table.Th className="hide-narrow">{words.plugin}</Table.Th>}
        {kind === 'plugin' && <Table.Th>{words.shenyuKinds.selector}</Table.Th>}
        {(hasConditions || kind === 'plugin') && <Table.Th className="numbers hide-narrow">{words.shenyuSort}</Table.Th>}
        <Table.Th>{words.state}</Table.Th>
      </Table.Tr></Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={row.id}>
            <Table.Td>
              <Anchor component={Link} to={`/shenyu/${kind}/${encodeURIComponent(row.id)}`}>{String(row.name ?? row.path ?? row.appKey ?? row.id)}</Anchor>
            </Table.Td>
            <Table.Td>{hasConditions
              ? <>{row.type === 0 && <Text size="sm">{words.shenyuAll}</Text>}{conditionsOf(row).map((one) => <Text key={one} size="sm" className="mono">{one}</Text>)}</>
              : <Text size="sm" className="whole">{text(row)}</Text>}
            </Table.Td>
            {kind === 'selector' && <Table.Td className="hide-narrow">{String(row.pluginName ?? '')}</Table.Td>}
            {kind === 'plugin' && <Table.Td><Anchor component={Link} to="/shenyu/selector" search={{ in: row.id } as never} aria-label={`${words.shenyuKinds.selector}: ${String(row.name)}`}>{words.shenyuKinds.selector}</Anchor></Table.Td>}
            {(hasConditions || kind === 'plugin') && <Table.Td className="numbers hide-narrow">{row.sort}</Table.Td>}
            <Table.Td>{row.enabled !== undefined && <StateBadge state={row.enabled ? 'good' : 'off'} label={row.enabled ? words.on : words.off} />}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}
