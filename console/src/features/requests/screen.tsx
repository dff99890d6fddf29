/** Recent requests, with what failed and why. No query string and no header is here. */
import { Anchor, Badge, Button, Drawer, Group, SegmentedControl, Stack, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQueries, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { json, query } from '../../api/client'
import { useOverview } from '../../api/live'
import type { Finding, RecentRequest } from '../../api/types'
import { factsOf } from '../../flow/object-path'
import { pathInUrl, visible } from '../../lib/visible'
import { Findings } from '../../ui/findings'
import { Opens } from '../../ui/frame'
import { Inline } from '../../ui/markdown'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Command, Empty, ErrorBox, Loading, NoMatch, ScreenHead, StatusBadge } from '../../ui/states'
import { clock } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'

const api = getRouteApi('/requests')

const ROWS = 50

/** Routes whose names are asked for: a page rarely has more. */
const NAMES_MAX = 20

interface Answer {
  kept: number
  matching: number
  missed: number
  rows: RecentRequest[]
}

/** Filters that are written as words: `code:upstream_timeout status:5xx`; what is left is searched for. */
function filtersOf(text: string): { q?: string; code?: string; status?: string; route?: string } {
  const filters: { q?: string; code?: string; status?: string; route?: string } = {}
  const rest = text.split(/\s+/).filter((word) => {
    const [, name, value] = /^(code|status|route):(.+)$/.exec(word) ?? []
    if (name === undefined) return true
    filters[name as 'code'] = value
    return false
  })
  return { ...filters, q: rest.join(' ') || undefined }
}

export function Requests() {
  const words = useWords()
  const search = api.useSearch()
  const navigate = api.useNavigate()
  const [isPaused, setPaused] = useState(false)
  const [isReading, setReading] = useState(false)
  const [opened, open] = useState<RecentRequest>()
  const { q, code, status, route, page = 1 } = search
  const found = useQuery({
    queryKey: ['requests', q, code, status, route],
    // Who reads a row, or an older page, does not want it to move.
    refetchInterval: isPaused || isReading || page > 1 || opened ? false : 1000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<Answer>(`/console/v1/requests${query({ q, code, status, route })}`, { signal }),
  })
  const set = (change: Partial<typeof search>) => void navigate({ search: { ...search, page: undefined, ...change }, replace: true })
  const chips = ([['code', code], ['route', route]] as const).filter(([, value]) => value !== undefined)
  const { data } = found
  const rows = data?.rows.slice((page - 1) * ROWS, page * ROWS) ?? []
  const names = useNames(rows.map((row) => row.route))
  return (
    <>
      <ScreenHead title={words.requests} note={words.requestsHelp}>
        <Button size="xs" data-pause variant="default" aria-pressed={isPaused} onClick={() => setPaused(!isPaused)}>{isPaused ? words.resume : words.pause}</Button>
      </ScreenHead>
      <Group mb="md" gap="xs">
        <TextInput data-filter className="filterbox" aria-label={words.filterRequests} placeholder={words.filterRequests} value={q ?? ''} onChange={(event) => set({ q: event.currentTarget.value || undefined })} onKeyDown={(event) => event.key === 'Enter' && set(filtersOf(event.currentTarget.value))} />
        <SegmentedControl
          size="xs" aria-label={words.status} value={status ?? ''} onChange={(value) => set({ status: value || undefined })}
          data={[{ value: '', label: words.allStatuses }, { value: '2xx', label: '2xx' }, { value: '4xx', label: '4xx' }, { value: '5xx', label: '5xx' }]}
        />
        {chips.map(([name, value]) => (
          <Button key={name} size="xs" variant="light" onClick={() => set({ [name]: undefined })} rightSection={<span aria-label={words.clear}>×</span>}>{name}: {value}</Button>
        ))}
        {data && data.missed > 0 && <Badge color="yellow" variant="light" className="state">{words.missed(data.missed)}</Badge>}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.rows.length === 0 ? (data.kept === 0 ? <FirstRequest /> : <NoMatch filters={[q, code, status, route]} kept={data.kept} clear={() => void navigate({ search: {}, replace: true })} />) : (
        <>
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead>
              <Table.Tr>
                <Table.Th>{words.time}</Table.Th><Table.Th>{words.status}</Table.Th><Table.Th>{words.request}</Table.Th>
                <Table.Th>{words.cause}</Table.Th><Table.Th>{words.route}</Table.Th><Table.Th>{words.node}</Table.Th>
                <Table.Th className="hide-medium">{words.client}</Table.Th><Table.Th className="numbers">{words.duration}</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody onFocus={() => setReading(true)} onBlur={() => setReading(false)}>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td className="mono nowrap">{clock(row.at_ms)}</Table.Td>
                  <Table.Td><StatusBadge status={row.status} /></Table.Td>
                  <Table.Td className="mono request"><Opens onClick={() => open(row)}>{row.method || '–'} {visible(row.host + row.path)}</Opens></Table.Td>
                  <Table.Td className="mono nowrap">{row.error ? <Opens isCell onClick={() => set({ code: row.error?.code })}>{row.error.code}{row.plugin && ` (${row.plugin})`}</Opens> : row.status >= 500 ? <span>{words.answeredByNode}</span> : null}</Table.Td>
                  <Table.Td className="narrow">{row.route && <Opens isCell onClick={() => set({ route: row.route })}>{names.get(row.route) ?? row.route}</Opens>}</Table.Td>
                  <Table.Td className="mono nowrap">{[...new Set(row.attempts.map((it) => it.node))].map((node) => <Opens key={node} isCell onClick={() => set({ q: node })}>{node}</Opens>)}</Table.Td>
                  <Table.Td className="mono nowrap hide-medium">{row.client}</Table.Td>
                  <Table.Td className="numbers">{words.ms(row.duration_ms)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
        <Pager page={page} rows={ROWS} shown={rows.length} total={data.rows.length} turn={(to) => void navigate({ search: { ...search, page: to > 1 ? to : undefined } })} />
        {data.matching > data.rows.length && <Text size="sm" c="dimmed">{words.newestOf(data.rows.length, data.matching)}</Text>}
        </>
      )}
      <Drawer opened={opened !== undefined} onClose={() => open(undefined)} position="right" size="md" title={opened && <span className="mono">{opened.method} {visible(opened.host + opened.path)}</span>}>
        {opened && <Detail row={opened} />}
      </Drawer>
    </>
  )
}

/** How the first request comes: by a command to the data plane. */
function FirstRequest() {
  const words = useWords()
  const listener = useOverview().data?.listeners.http?.[0]
  const host = listener?.replace(/^(?:0\.0\.0\.0|\[::\])(?=:)/, location.hostname)
  return <Empty icon="requests" title={words.noRequests}>{words.noRequestsHelp}{host && <Command text={`curl -i http://${host}/`} />}</Empty>
}

/** Names of routes by their ids, as far as there are any. */
function useNames(ids: string[]): Map<string, string> {
  const distinct = [...new Set(ids)].filter((id) => id !== '').slice(0, NAMES_MAX)
  const found = useQueries({ queries: distinct.map((id) => ({ ...factsOf('routes', id), retry: false, staleTime: 60_000 })) })
  return new Map(distinct.flatMap((id, at) => {
    const name = found[at]?.data?.value.name
    return typeof name === 'string' ? [[id, name] as const] : []
  }))
}

/** What is wrong with the gateway that a request may have failed by: findings of its route, or of a node that it was sent to. */
function useRelated(row: RecentRequest): Finding[] {
  const findings = useOverview().data?.findings ?? []
  if (row.error === null && row.status < 500) return []
  const nodes = row.attempts.map((attempt) => attempt.node)
  const ofRequest = findings.filter(({ requests }) => requests !== null && (requests.code === undefined || requests.code === row.error?.code))
  // The route tells more than a node, which other routes may use too.
  const ofRoute = ofRequest.filter(({ requests }) => requests?.route === row.route)
  return (ofRoute.length > 0 ? ofRoute : ofRequest.filter(({ requests }) => nodes.some((node) => requests?.q === node))).slice(0, 1)
}

function Detail({ row }: { row: RecentRequest }) {
  const words = useWords()
  const related = useRelated(row)
  const { language } = useLanguage()
  // A fact that the request lacks is left out.
  const facts = ([
    [words.time, new Date(row.at_ms).toLocaleString(language)],
    [words.status, <StatusBadge key="s" status={row.status} />],
    [words.duration, words.ms(row.duration_ms) + (row.upstream_ms === null ? '' : ` (${words.upstream}: ${words.ms(row.upstream_ms)})`)],
    [words.client, <span key="c" className="mono">{row.client}</span>],
    [words.consumer, row.consumer],
    [words.plugin, row.plugin],
    [words.cause, row.cause],
    [words.trace, row.trace_id && <span key="t" className="mono">{row.trace_id}</span>],
    [words.route, row.route && <Anchor key="r" component={Link} to={`/objects/routes/${encodeURIComponent(row.route)}`}>{row.route}</Anchor>],
  ] as [string, React.ReactNode][]).filter(([, value]) => value)
  return (
    <Stack>
      {related.length > 0 && <section className="card findings" aria-label={words.needsHand}><Findings findings={related} /></section>}
      {row.error && (
        <section className="card">
          <Text className="mono" fw={700}>{row.error.code}</Text>
          <Text size="sm" mt={4} lang="en">{row.error.meaning}</Text>
          <Text size="sm" mt="sm" fw={600}>{words.remedy}</Text>
          <Text size="sm" lang="en"><Inline text={row.error.remedy} /></Text>
        </section>
      )}
      <Table variant="vertical"><Table.Tbody>{facts.map(([name, value]) => <Table.Tr key={name}><Table.Th w={120}>{name}</Table.Th><Table.Td>{value}</Table.Td></Table.Tr>)}</Table.Tbody></Table>
      {row.attempts.length > 0 && (
        <section>
          <Text fw={600} size="sm">{words.attempts} ({row.attempt_count})</Text>
          <Table><Table.Tbody>{row.attempts.map((attempt, at) => (
            <Table.Tr key={`${attempt.node} ${at}`}>
              <Table.Td><Anchor component={Link} to="/nodes" search={{ q: attempt.node } as never} className="mono">{attempt.node}</Anchor></Table.Td>
              <Table.Td>{attempt.code === null ? <StatusBadge status={attempt.status} /> : <span className="mono">{attempt.code}</span>}</Table.Td>
              <Table.Td className="numbers">{words.ms(attempt.took_ms)}</Table.Td>
            </Table.Tr>
          ))}</Table.Tbody></Table>
        </section>
      )}
      {row.host && <Button component={Link} variant="light" to="/explain" search={{ url: `http://${row.host}${pathInUrl(row.path)}`, method: row.method, from: row.client } as never}>{words.explain}</Button>}
    </Stack>
  )
}
