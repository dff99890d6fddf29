/** Which route a request would take, and why the others lose. Nothing is sent. */
import { Anchor, Button, Group, Select, SimpleGrid, Stack, Table, Text, Textarea, TextInput, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { json, query } from '../../api/client'
import type { Explanation, ObjectRow } from '../../api/types'
import { parseCurl, quoted } from '../../lib/curl'
import type { ExplainSearch } from '../../routes'
import { CopyButton } from '../../ui/copy'
import { Scroll } from '../../ui/scroll'
import { ErrorBox, Loading, ScreenHead, StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'

const api = getRouteApi('/explain')
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

const lines = (text: string | undefined) => (text ?? '').split('\n').map((line) => line.trim()).filter((line) => line !== '')

export function Explain() {
  const words = useWords()
  const search = api.useSearch()
  const answer = useQuery({
    queryKey: ['explain', search],
    enabled: search.url !== undefined,
    queryFn: ({ signal }) => {
      const { url, method, h, from, body } = search
      const question = { url, method, headers: lines(h), remote_addr: from, body }
      return json<Explanation>('/console/v1/explain', { method: 'POST', body: JSON.stringify(question), signal })
    },
  })
  return (
    <>
      <ScreenHead title={words.explain} note={words.explainHelp} isFieldFirst={search.url === undefined} />
      <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
        <Question key={JSON.stringify(search)} search={search} />
        <Stack>
          {answer.isError && <ErrorBox error={answer.error} />}
          {answer.isLoading && <Loading rows={4} />}
          {search.url === undefined && <Examples />}
          {answer.data && <Verdict answer={answer.data} />}
        </Stack>
      </SimpleGrid>
      {answer.data?.candidates && answer.data.candidates.length > 0 && <Candidates answer={answer.data} />}
    </>
  )
}

/** Routes that examples are made of. */
const EXAMPLES = 3

/** Requests that routes of this gateway take: where somebody does not know yet what to ask. */
function Examples() {
  const words = useWords()
  const found = useQuery({
    queryKey: ['objects', 'routes', 'examples'],
    queryFn: ({ signal }) => json<{ rows: ObjectRow[] }>(`/console/v1/objects/routes${query({ page_size: EXAMPLES })}`, { signal }),
  })
  const rows = found.data?.rows ?? []
  if (rows.length === 0) return null
  return (
    <section className="card">
      <Text size="sm">{words.examples}</Text>
      <ul className="places">
        {rows.map((row) => {
          const method = row.methods?.[0]
          const url = `http://${(row.host ?? row.hosts?.[0] ?? 'example.com').replace('*', 'x')}${(row.uri ?? row.uris?.[0] ?? '/').replace('*', 'x')}`
          return <li key={row.id}><Anchor component={Link} to="/explain" search={{ url, method } as never} className="mono">{method ?? 'GET'} {url}</Anchor></li>
        })}
      </ul>
    </section>
  )
}

function Question({ search }: { search: ExplainSearch }) {
  const words = useWords()
  const navigate = api.useNavigate()
  const [form, setForm] = useState(search)
  const set = (change: ExplainSearch) => setForm((known) => ({ ...known, ...change }))
  const setUrl = (text: string) => {
    const pasted = parseCurl(text)
    if (pasted === undefined) return set({ url: text })
    setForm({ url: pasted.url, method: pasted.method, h: pasted.headers.join('\n') || undefined, body: pasted.body, from: form.from })
  }
  const ask = (event: FormEvent) => {
    event.preventDefault()
    const { url, method, h, from, body } = form
    const whole = url && !url.includes('://') ? `http://${url}` : url
    void navigate({ search: { url: whole || undefined, method: method || undefined, h: h || undefined, from: from || undefined, body: body || undefined } })
  }
  const command = () =>
    ['tollhouse explain', `--url ${quoted(form.url ?? '')}`, form.method && `-X ${form.method}`,
      ...lines(form.h).map((line) => `-H ${quoted(line)}`), form.from && `--remote-addr ${form.from}`, form.body && `-d ${quoted(form.body)}`,
    ].filter(Boolean).join(' ')
  return (
    <form onSubmit={ask} className="card" onKeyDown={(event) => { if ((event.ctrlKey || event.metaKey) && event.key === 'Enter') event.currentTarget.requestSubmit() }}>
      <Stack gap="sm">
        <TextInput required data-filter autoFocus={search.url === undefined} label={words.url} description={words.pasteCurl} placeholder="http://api.example.com/v1/users?id=7" value={form.url ?? ''} onChange={(event) => setUrl(event.currentTarget.value)} />
        <Group grow align="flex-start">
          <Select label={words.method} data={METHODS} value={form.method ?? null} placeholder="GET" clearable onChange={(method) => set({ method: method ?? undefined })} />
          <TextInput label={words.remoteAddr} placeholder="127.0.0.1" value={form.from ?? ''} onChange={(event) => set({ from: event.currentTarget.value })} />
        </Group>
        <Textarea label={words.headers} autosize minRows={2} maxRows={8} placeholder="Authorization: Bearer x" className="editor" value={form.h ?? ''} onChange={(event) => set({ h: event.currentTarget.value })} />
        <Textarea label={words.body} autosize minRows={1} maxRows={8} className="editor" value={form.body ?? ''} onChange={(event) => set({ body: event.currentTarget.value })} />
        <Group justify="space-between">
          <Button type="submit">{words.ask}</Button>
          <CopyButton label="CLI" text={command} />
        </Group>
      </Stack>
    </form>
  )
}

function Verdict({ answer }: { answer: Explanation }) {
  const words = useWords()
  const { route, refused, request, plugins = [], upstream } = answer
  return (
    <section className="card">
      <Title order={2} size="h4">{route ? words.takes(route.name ? `${route.name} (${route.id})` : route.id) : words.takesNone}</Title>
      {request && <Text size="sm" c="dimmed" className="mono" mt={4}>{request.method} {request.host} {request.path}{request.sent_path !== request.path && ` ← ${request.sent_path}`}</Text>}
      {refused && (
        <Stack gap={2} mt="sm">
          {refused.status !== undefined && <StateBadge state="bad" label={words.answered(refused.status, refused.code ?? '')} />}
          <Text size="sm" lang="en">{refused.reason}</Text>
          {refused.remedy && <Text size="sm" lang="en" c="dimmed">{refused.remedy}</Text>}
        </Stack>
      )}
      {route && (
        <div className="flow" style={{ marginTop: 14 }}>
          <div className="step"><Text size="xs" c="dimmed">{words.route}</Text><Anchor component={Link} to={`/objects/routes/${encodeURIComponent(route.id)}`}>{route.name ?? route.id}</Anchor><Text size="xs" className="mono">{route.uri}</Text>{Object.entries(route.captured).map(([name, value]) => <Text key={name} size="xs" className="mono">{name} = {value}</Text>)}</div>
          {plugins.map((plugin) => (
            <FlowStep key={`${plugin.owner} ${plugin.name}`}>
              <Text size="xs" c="dimmed" lang="en">{plugin.owner}</Text>
              <Text fw={600}>{plugin.name}</Text>
              <Text size="xs" c="dimmed" lang="en">{plugin.phases.join(', ')}</Text>
              {plugin.is_unavailable && <StateBadge state="bad" label="!" />}
              {plugin.filter && <Text size="xs" className="mono">{plugin.filter}</Text>}
            </FlowStep>
          ))}
          {upstream && (
            <FlowStep>
              <Text size="xs" c="dimmed" className="mono">{upstream.place}</Text>
              {upstream.nodes.slice(0, 6).map((node) => <Text key={`${node.host}:${node.port}`} size="sm" className="mono">{node.status === 'healthy' ? '●' : '■'} {node.host}:{node.port} × {node.weight}</Text>)}
              {upstream.node_count > 6 && <Text size="xs" c="dimmed">{words.nodesInline(upstream.node_count)}</Text>}
            </FlowStep>
          )}
        </div>
      )}
    </section>
  )
}

function FlowStep({ children }: { children: React.ReactNode }) {
  return <><span className="arrow" aria-hidden>→</span><div className="step">{children}</div></>
}

function Candidates({ answer }: { answer: Explanation }) {
  const words = useWords()
  const { candidates = [], candidate_count = 0 } = answer
  return (
    <section>
      <Title order={2} size="h4" mt="lg" mb="xs">{words.candidates}</Title>
      <Scroll>
        <Table>
          <Table.Thead><Table.Tr><Table.Th>{words.order}</Table.Th><Table.Th>{words.route}</Table.Th><Table.Th>{words.host}</Table.Th><Table.Th>{words.path}</Table.Th><Table.Th>{words.why}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {candidates.map((candidate, at) => (
              <Table.Tr key={`${candidate.id} ${candidate.uri} ${at}`}>
                <Table.Td>{at + 1}</Table.Td>
                <Table.Td><Anchor component={Link} to={`/objects/routes/${encodeURIComponent(candidate.id)}`}>{candidate.name ?? candidate.id}</Anchor></Table.Td>
                <Table.Td className="mono">{candidate.host ?? words.anyHost}</Table.Td>
                <Table.Td className="mono">{candidate.uri}</Table.Td>
                <Table.Td>{candidate.wins ? <StateBadge state="good" label={words.wins} /> : <Text size="sm" lang="en">{candidate.reason}</Text>}</Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Scroll>
      {candidate_count > candidates.length && <Text size="sm" c="dimmed">{words.shown(1, candidates.length, candidate_count)}</Text>}
    </section>
  )
}
