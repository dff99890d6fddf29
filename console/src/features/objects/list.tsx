/** The objects of a kind: searched, ordered and paged by the gateway, however many there are. What one is like is seen elsewhere. */
import { Button, Checkbox, Group, Table, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { json, query } from '../../api/client'
import type { Kind, ObjectRow } from '../../api/types'
import { iconOf } from '../../ui/icons'
import { Count } from '../../ui/count'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Command, Empty, ErrorBox, Loading, NoMatch, ScreenHead, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { isRated, type Rate as ObjectRate, useRates } from '../../api/rates'
import { useRefusal } from '../../ui/permission'
import { type Sorting, SortHead } from '../../ui/sort'
import { Chips } from './chips'
import { ExportButton, ExportFault } from './export'
import { type Column, exampleOf, KIND_FACTS } from './kinds'
import { curlOf } from './queries'

const api = getRouteApi('/objects/$kind')
const ROWS = 50

export function ObjectList() {
  const words = useWords()
  const { kind } = api.useParams() as { kind: Kind }
  const search = api.useSearch()
  const { q, page = 1, sort, problem } = search
  const navigate = api.useNavigate()
  const [ticked, tick] = useTicked(`${kind} ${q ?? ''} ${problem ?? ''}`)
  const [refusal, refuse] = useState<unknown>()
  const found = useQuery({
    queryKey: ['objects', kind, q, page, sort, problem],
    placeholderData: keepPreviousData,
    refetchInterval: 10_000,
    queryFn: ({ signal }) => json<{ total: number; rows: ObjectRow[] }>(`/console/v1/objects/${kind}${query({ q, page, page_size: ROWS, sort, problem: problem ? 'true' : undefined })}`, { signal }),
  })
  const { data } = found
  const refused = useRefusal()
  const turn = (to: number) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })
  // Another filter or order begins at its first page.
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, page: undefined, ...change }, replace: true })
  const isFiltered = q !== undefined || problem !== undefined
  return (
    <>
      <ScreenHead title={words[kind]} note={words.kindHelp[kind]}>
        <ExportButton kind={kind} q={q} ticked={[...ticked]} fail={refuse} />
        <Button data-new component={Link} to={`/new/${kind}`} size="sm" disabled={refused !== undefined} title={refused}>{words.newOf(words.oneOf[kind])}</Button>
      </ScreenHead>
      <ExportFault reason={refusal} />
      <Group mb="md" gap="sm">
        <TextInput data-filter className="filterbox" aria-label={words.filterObjects} placeholder={words.filterObjects} value={q ?? ''} onChange={(event) => set({ q: event.currentTarget.value || undefined })} />
        <Chips search={search} set={set} hasState={KIND_FACTS[kind].columns.includes('state')} />
        {data && <Count text={words.total(data.total)} asked={q ?? ''} isOld={found.isPlaceholderData} />}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.rows.length === 0 ? (
        isFiltered || data.total > 0 ? <NoMatch filters={[q, problem ? words.withProblem : undefined, data.total > 0 ? `${words.goToPage} ${page}` : undefined]} clear={() => void navigate({ search: { sort } })} /> : <First kind={kind} />
      ) : (
        <>
          <Scroll><Rows kind={kind} rows={data.rows} first={(page - 1) * ROWS} total={data.total} sorting={{ sort, choose: (next) => set({ sort: next }) }} ticked={ticked} tick={tick} /></Scroll>
          <Pager page={page} rows={ROWS} shown={data.rows.length} total={data.total} turn={turn} />
        </>
      )}
    </>
  )
}

/** How the first object of a kind is made: by the button above, or by a command. */
function First({ kind }: { kind: Kind }) {
  const words = useWords()
  const { id, text } = exampleOf(kind)
  return (
    <Empty icon={iconOf({ to: `/objects/${kind}`, section: 'gateway' })} title={words.emptyKindTitle(words[kind])}>
      {words.kindHelp[kind]} {words.emptyCurl}
      <Command text={curlOf(kind, id, text)} />
    </Empty>
  )
}

/** What is ticked; another list begins with nothing. */
function useTicked(list: string): [ReadonlySet<string>, (id: string) => void] {
  const [state, set] = useState<{ list: string; ids: ReadonlySet<string> }>({ list, ids: NONE })
  const ids = state.list === list ? state.ids : NONE
  return [ids, (id) => {
    const next = new Set(ids)
    if (!next.delete(id)) next.add(id)
    set({ list, ids: next })
  }]
}

const NONE: ReadonlySet<string> = new Set()

/** Rows of a page; `first` are before them, of so many in all. */
interface RowsProps { kind: Kind; rows: ObjectRow[]; first: number; total: number; sorting: Sorting; ticked: ReadonlySet<string>; tick: (id: string) => void }

function Rows({ kind, rows, first, total, sorting, ticked, tick }: RowsProps) {
  const words = useWords()
  const hasRates = isRated(kind)
  const has = (column: Column) => KIND_FACTS[kind].columns.includes(column)
  const rates = useRates(hasRates ? kind : undefined, rows.map((row) => row.id))
  const rateOf = new Map((rates.data?.rows ?? []).map((rate) => [rate.id, rate]))
  return (
    <Table highlightOnHover aria-rowcount={total + 1}>
      <Table.Thead><Table.Tr>
        <Table.Th w={36}><span className="unseen">{words.ticked}</span></Table.Th>
        <SortHead by="name" sorting={sorting}>{words.name}</SortHead>
        {has('methods') && <Table.Th className="hide-narrow">{words.methods}</Table.Th>}
        {has('host') && <SortHead by="host" sorting={sorting}>{words.host}</SortHead>}
        {has('path') && (KIND_FACTS[kind].pathWord ? <Table.Th>{words[KIND_FACTS[kind].pathWord]}</Table.Th> : <SortHead by="uri" sorting={sorting}>{words.path}</SortHead>)}
        {has('plugins') && <SortHead by="plugins" sorting={sorting} className="hide-narrow" isNewestFirst>{words.plugins}</SortHead>}
        {has('leadsTo') && <Table.Th>{words.leadsTo}</Table.Th>}
        {hasRates && <Table.Th className="numbers hide-narrow">{words.rateShort}</Table.Th>}
        {has('state') && <SortHead by="status" sorting={sorting} className="hide-narrow" isNewestFirst>{words.state}</SortHead>}
        <SortHead by="changed" sorting={sorting} className="hide-narrow" isNewestFirst>{words.changed}</SortHead>
      </Table.Tr></Table.Thead>
      <Table.Tbody>
        {rows.map((row, at) => (
          <Table.Tr key={row.id} aria-rowindex={first + at + 2}>
            <Table.Td><Checkbox size="xs" aria-label={words.tick(row.name ?? row.username ?? row.id)} checked={ticked.has(row.id)} onChange={() => tick(row.id)} /></Table.Td>
            <Table.Td>
              <Text component={Link} to={`/objects/${kind}/${encodeURIComponent(row.id)}`} c="var(--mantine-color-anchor)">{row.name ?? row.username ?? row.id}</Text>
              {(row.name ?? row.username ?? row.id) !== row.id && <Text size="xs" c="dimmed" className="mono">{row.id}</Text>}
              {row.desc && <Text size="xs" c="dimmed" lineClamp={1}>{row.desc}</Text>}
              {row.problem && <Group gap={6} wrap="nowrap"><StateBadge state="warn" label={words.problem} /><Text size="xs" lang="en" lineClamp={2} title={row.problem}>{row.problem}</Text></Group>}
            </Table.Td>
            {has('methods') && <Table.Td className="mono hide-narrow">{row.methods?.join(' ')}</Table.Td>}
            {has('host') && <Table.Td className="mono hosts">{[row.host, row.sni, ...(row.hosts ?? []), ...(row.snis ?? [])].filter(Boolean).slice(0, 3).join(' ')}</Table.Td>}
            {has('path') && <Table.Td className="mono paths">{[row.uri, ...(row.uris ?? [])].filter(Boolean).slice(0, 3).join(' ')}{row.server_port}</Table.Td>}
            {has('plugins') && <Table.Td className="hide-narrow">{row.plugins && row.plugins.length > 0 && <Text size="sm" lineClamp={2}>{row.plugins.map((name, at) => <span key={name}>{at > 0 && ', '}<span className="nowrap">{name}</span></span>)}</Text>}</Table.Td>}
            {has('leadsTo') && <Table.Td><LeadsTo row={row} /></Table.Td>}
            {hasRates && <Table.Td className="numbers hide-narrow"><Rate rate={rateOf.get(row.id)} /></Table.Td>}
            {has('state') && <Table.Td className="hide-narrow">{row.status !== undefined && <StateBadge state={row.status === 0 ? 'off' : 'good'} label={row.status === 0 ? words.off : words.on} />}</Table.Td>}
            <Table.Td className="hide-narrow nowrap"><Text size="sm" c="dimmed"><Time at={row.update_time} /></Text></Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  )
}

function Rate({ rate }: { rate: ObjectRate | undefined }) {
  const words = useWords()
  if (rate === undefined) return <Text size="sm" c="dimmed">–</Text>
  return <Text size="sm" title={words.requestsSince(rate.requests, rate.failed)}>{words.perSecond(rate.rate)}{rate.failed_rate > 0 && <Text span c="red" inherit> · {words.failing(rate.failed_rate)}</Text>}</Text>
}

function LeadsTo({ row }: { row: ObjectRow }) {
  const words = useWords()
  const link = (kind: Kind, id: string | number) => (
    <Text size="sm" component={Link} to={`/objects/${kind}/${encodeURIComponent(id)}`} c="var(--mantine-color-anchor)"><Text span size="xs" c="dimmed">{words.oneOf[kind]}</Text> {id}</Text>
  )
  if (row.upstream_id !== undefined) return link('upstreams', row.upstream_id)
  if (row.service_id !== undefined) return link('services', row.service_id)
  if (row.service_name !== undefined) return <Text size="sm" className="mono">{row.service_name}</Text>
  if (row.nodes !== undefined) return <Text size="sm">{words.nodesInline(row.nodes)}</Text>
  return null
}
