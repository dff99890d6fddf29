/** The first steps with a new gateway: a route and a request through it, a service, a measurement. Each step looks whether it was done. */
import { Alert, Anchor, Button, Group, SegmentedControl, Stack, Text, TextInput, Title } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { useForgetting } from '../../api/changes'
import { call, json, query } from '../../api/client'
import { useOverview } from '../../api/live'
import type { Overview, RecentRequest } from '../../api/types'
import { quoted } from '../../lib/curl'
import { setGuide } from '../../ui/layout'
import { useRefusal } from '../../ui/permission'
import { Command, ErrorBox, Loading, StatusBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { planeUrl, type Target, routeOf } from './first-route'

/** The route that the guide makes. */
const ID = 'hello'

const useFirstRequest = (isAsked: boolean) =>
  useQuery({
    queryKey: ['requests', 'first', ID],
    enabled: isAsked,
    refetchInterval: 1000,
    queryFn: async ({ signal }) => (await json<{ rows: RecentRequest[] }>(`/console/v1/requests${query({ route: ID })}`, { signal })).rows,
  })

export function Guide() {
  const words = useWords()
  const { data } = useOverview()
  const route = useQuery({
    queryKey: ['guide', 'route'],
    queryFn: async ({ signal }) => (await json<{ rows: { id: string; uri?: string }[] }>(`/console/v1/objects/routes${query({ q: ID, page_size: 50 })}`, { signal })).rows.find((row) => row.id === ID) ?? null,
  })
  const requests = useFirstRequest(route.data !== undefined && route.data !== null)
  if (data === undefined || route.data === undefined) return <Loading rows={4} />
  const seen = requests.data?.[0]
  return (
    <section aria-labelledby="guide">
      <Group justify="space-between" align="flex-start" mb="md">
        <div><Title order={2} size="h4" id="guide">{words.guideTitle}</Title><Text size="sm" c="dimmed">{words.guideHelp}</Text></div>
        <Button size="xs" variant="default" onClick={() => setGuide('closed')}>{words.guideHide}</Button>
      </Group>
      <div className="wayin">
        <Step number={1} title={words.guideRoute} isDone={route.data !== null}>
          {route.data === null ? <RouteForm /> : <Text size="sm">{words.guideRouteDone} <Anchor component={Link} to={`/objects/routes/${ID}`}>{ID}</Anchor></Text>}
        </Step>
        <Step number={2} title={words.guideRequest} isDone={seen !== undefined}>
          {route.data === null ? <Text size="sm" c="dimmed">{words.guideAfterRoute}</Text> : <FirstRequest data={data} path={(route.data.uri ?? '/hello').replace('*', '')} seen={seen} />}
        </Step>
        <Step number={3} title={words.guideService} isDone={(data.registry?.services ?? 0) > 0}><Service data={data} /></Step>
        <Step number={4} title={words.guideMeasure} isDone={false}><Measure data={data} /></Step>
      </div>
    </section>
  )
}

function Step({ number, title, isDone, children }: { number: number; title: string; isDone: boolean; children: React.ReactNode }) {
  return (
    <section className="card">
      <Group gap="xs" mb="sm" wrap="nowrap"><span className={isDone ? 'stepno done' : 'stepno'} aria-hidden>{isDone ? '✓' : number}</span><Title order={3} size="h5">{title}</Title></Group>
      <Stack gap="sm">{children}</Stack>
    </section>
  )
}

function RouteForm() {
  const words = useWords()
  const client = useQueryClient()
  const forget = useForgetting()
  const refused = useRefusal()
  const [target, setTarget] = useState<Target>({ kind: 'answer', path: '/hello', server: '' })
  const [error, setError] = useState<unknown>()
  const save = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    try {
      await call(`/apisix/admin/routes/${ID}`, { method: 'PUT', body: JSON.stringify(routeOf(target)) })
      setGuide('open')
      await forget()
      await client.invalidateQueries({ queryKey: ['guide'] })
    } catch (reason) {
      setError(reason)
    }
  }
  return (
    <form onSubmit={save}>
      <Stack gap="sm">
        {error !== undefined && <ErrorBox error={error} />}
        <TextInput label={words.path} required value={target.path} onChange={(event) => setTarget({ ...target, path: event.currentTarget.value })} />
        <SegmentedControl size="xs" aria-label={words.guideTarget} value={target.kind} onChange={(kind) => setTarget({ ...target, kind: kind as Target['kind'] })}
          data={[{ value: 'answer', label: words.guideAnswer }, { value: 'server', label: words.guideServer }]} />
        {target.kind === 'server' && <TextInput label={words.guideAddress} required placeholder="127.0.0.1:8080" value={target.server} onChange={(event) => setTarget({ ...target, server: event.currentTarget.value.trim() })} />}
        <Group><Button type="submit" disabled={refused !== undefined} title={refused}>{words.guideCreate}</Button></Group>
      </Stack>
    </form>
  )
}

function FirstRequest({ data, path, seen }: { data: Overview; path: string; seen: RecentRequest | undefined }) {
  const words = useWords()
  const url = planeUrl(data.listeners, location.hostname, path)
  if (url === undefined) return <Text size="sm" c="dimmed">{words.guideNoListener}</Text>
  return (
    <>
      <Command text={`curl ${quoted(url)}`} />
      <Group gap="xs"><Button size="xs" variant="default" component="a" href={url} target="_blank" rel="noreferrer">{words.guideOpen}</Button></Group>
      <div role="status">
        {seen === undefined ? <Text size="sm" c="dimmed">{words.guideWaiting}</Text> : (
          <Alert color="teal" variant="light" title={words.guideSeen}>
            <Group gap="xs">
              <StatusBadge status={seen.status} />
              <Anchor component={Link} to="/requests" search={{ route: ID } as never} className="mono">{seen.method} {seen.path}</Anchor>
              <Text size="sm">{words.ms(seen.duration_ms)} · <Time at={seen.at_ms / 1000} /></Text>
            </Group>
          </Alert>
        )}
      </div>
    </>
  )
}

function Service({ data }: { data: Overview }) {
  const words = useWords()
  if (data.registry === null) return <Text size="sm" c="dimmed">{words.guideRegistryOff}</Text>
  return (
    <>
      <Text size="sm">{words.guideServiceHelp}</Text>
      <Command text={`curl -X POST ${location.origin}/registry/v1/instances \\\n  -H "X-API-KEY: $ADMIN_KEY" \\\n  -d '{"service": "orders", "host": "127.0.0.1", "port": 8080}'`} />
      <Anchor component={Link} to="/registry" size="sm">{words.registryServices}</Anchor>
    </>
  )
}

function Measure({ data }: { data: Overview }) {
  const words = useWords()
  const url = planeUrl(data.listeners, location.hostname, '/hello') ?? 'http://127.0.0.1:9080/hello'
  return (
    <>
      <Text size="sm">{words.guideMeasureHelp}</Text>
      <Command text={`tollhouse bench http -d 5s ${url}`} />
      <Anchor component={Link} to="/bench" size="sm">{words.bench}</Anchor>
    </>
  )
}
