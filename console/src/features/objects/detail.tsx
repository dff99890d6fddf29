/** One object of any kind: what it is, and what can be done with it. It is edited in `editor.tsx`. */
import { Anchor, Button, Group, Stack, Text, Title } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ApiError, call } from '../../api/client'
import { isRated } from '../../api/rates'
import { type Kind, pageOf } from '../../api/types'
import { useRoutePaths } from '../../flow/object-path'
import { CopyAs, CopyButton } from '../../ui/copy'
import { Deletion } from '../../ui/deletion'
import { ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { useRefusal } from '../../ui/permission'
import { About, useFacts } from './about'
import { Credentials } from './credentials'
import { Gone } from './gone'
import { KIND_FACTS } from './kinds'
import { Live } from './live'
import { cliOf, curlOf, pathOf, type Stored, useObject, yamlOf } from './queries'
import { Way } from './way'

const api = getRouteApi('/objects/$kind/$id')

/** Kinds that are named by a field, and the kind that it names. */
const REFERENCES: [string, Kind][] = [
  ['service_id', 'services'], ['upstream_id', 'upstreams'], ['plugin_config_id', 'plugin_configs'], ['group_id', 'consumer_groups'],
]

export function ObjectDetail() {
  const words = useWords()
  const { kind, id } = api.useParams() as { kind: Kind; id: string }
  const found = useObject(kind, id)
  const path = useRoutePaths(kind === 'routes' ? [id] : [])[0]
  const sealed = useFacts(kind, id).data?.sealed.length ?? 0
  const [isDeleting, deletion] = useDisclosure(false)
  const refused = useRefusal()
  const { data, error } = found
  if (error instanceof ApiError && error.status === 404) {
    return <Gone kind={kind} id={id} />
  }
  const value = data ? (JSON.parse(data.text) as Record<string, unknown>) : undefined
  const name = typeof value?.name === 'string' ? value.name : id
  const field = KIND_FACTS[kind].text
  const own = field === undefined ? undefined : value?.[field]
  // A sealed secret is opened by the gateway; the CLI of another machine has no key for it.
  const cli: [string, () => string][] = data && sealed === 0 ? [[words.copyCli, () => cliOf(kind, id, data.editable)]] : []
  const example = value && kind === 'routes' ? exampleUrl(value) : undefined
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to={`/objects/${kind}`}>{words[kind]}</Anchor> / <span className="mono">{id}</span></Text>
      <ScreenHead title={name} note={typeof value?.desc === 'string' ? value.desc : undefined}>
        {data && <CopyAs ways={[[words.copyCurl, () => curlOf(kind, id, data.editable)], [words.copyJson, () => data.text], [words.copyYaml, () => yamlOf(kind, id, data.editable)], ...cli]} />}
        {example && <Button size="xs" variant="default" component={Link} to="/explain" search={{ url: example } as never}>{words.explainRoute}</Button>}
        <Button size="xs" data-delete color="red" variant="light" disabled={refused !== undefined || !data} title={refused} onClick={deletion.open}>{words.remove}</Button>
        <Button size="xs" data-edit component={Link} to={`/objects/${kind}/${encodeURIComponent(id)}/edit`} disabled={refused !== undefined} title={refused}>{words.edit}</Button>
      </ScreenHead>
      {found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data && value ? (
        <Stack>
          {kind === 'routes' && <Way id={id} value={value} />}
          {isRated(kind) && <Live kind={kind} id={id} place={kind === 'upstreams' ? `upstreams/${id}` : path?.place} />}
          <Summary kind={kind} value={value} stored={data} />
          {kind === 'consumers' && <Credentials consumer={id} />}
          <About kind={kind} id={id} />
          {typeof own === 'string' && (
            <section>
              <Title order={2} size="h4" className="mono" mb="xs">{field}</Title>
              <pre className="code" tabIndex={0} lang="en">{own}</pre>
            </section>
          )}
          <section>
            <Group justify="space-between"><Title order={2} size="h4">{words.json}</Title>{sealed > 0 && <Text size="xs" c="dimmed">{words.changeSecrets}</Text>}</Group>
            <pre className="code" tabIndex={0} lang="en">{data.text}</pre>
          </section>
        </Stack>
      ) : !found.isError && <Loading />}
      {data && isDeleting && <ObjectDeletion kind={kind} id={id} stored={data} close={deletion.close} />}
    </>
  )
}

/** An address that this route may take: its first host and path, wildcards filled in. */
function exampleUrl(value: Record<string, unknown>): string | undefined {
  const first = (one: unknown, many: unknown) => (typeof one === 'string' ? one : Array.isArray(many) ? String(many[0] ?? '') : '')
  const path = first(value.uri, value.uris)
  const host = first(value.host, value.hosts)
  return path === '' ? undefined : `http://${(host || 'example.com').replace('*', 'x')}${path.replace('*', 'x')}`
}

function Summary({ kind, value, stored }: { kind: Kind; value: Record<string, unknown>; stored: Stored }) {
  const words = useWords()
  const plugins = Object.keys((value.plugins as object | undefined) ?? {})
  const texts = (...all: unknown[]) => all.flat().filter((it) => it !== undefined).map(String).join(' ')
  const nodes = value.nodes ?? (value.upstream as Record<string, unknown> | undefined)?.nodes
  const nodeText = Array.isArray(nodes)
    ? nodes.map((node: { host: string; port?: number; weight: number }) => `${node.host}${node.port ? `:${node.port}` : ''} × ${node.weight}`).join(', ')
    : nodes && typeof nodes === 'object' ? Object.entries(nodes).map(([host, weight]) => `${host} × ${String(weight)}`).join(', ') : ''
  const rows: [string, React.ReactNode][] = [
    [words.methods, Array.isArray(value.methods) ? value.methods.join(' ') : ''],
    [words.host, texts(value.host, value.hosts, value.sni, value.snis)],
    [words[KIND_FACTS[kind].pathWord ?? 'path'], texts(value.uri, value.uris, value.server_port)],
    [words.plugins, plugins.join(', ')],
    ...REFERENCES.map(([field, named]): [string, React.ReactNode] => [
      words[named], value[field] !== undefined && <Anchor component={Link} to={`/objects/${named}/${encodeURIComponent(String(value[field]))}`}>{String(value[field])}</Anchor>,
    ]),
    [words.nodes, nodeText],
    [words.changed, typeof value.update_time === 'number' && <><Time at={value.update_time} stands /> · {words.revision(stored.revision)}</>],
  ]
  return (
    <section className="card">
      <dl className="facts">
        {rows.filter(([, content]) => content).map(([label, content]) => <div key={label}><dt>{label}</dt><dd className="wrap">{content}</dd></div>)}
      </dl>
    </section>
  )
}

function ObjectDeletion({ kind, id, stored, close }: { kind: Kind; id: string; stored: Stored; close: () => void }) {
  const words = useWords()
  const navigate = useNavigate()
  const client = useQueryClient()
  const facts = useFacts(kind, id)
  const users = facts.data?.used_by ?? []
  const isImpossible = users.length > 0 && !KIND_FACTS[kind].isFree
  const remove = async () => {
    await call(pathOf(kind, id), { method: 'DELETE', headers: { 'If-Match': `"${stored.revision}"` } })
    client.removeQueries({ queryKey: ['object', kind, id] })
    await client.invalidateQueries({ queryKey: ['objects'] })
    await navigate({ to: `/objects/${kind}` })
  }
  const help = (
    <>
      {users.length > 0 && (
        <div role="alert">
          <Text size="sm">{words[isImpossible ? 'deleteUsed' : 'deleteNamed'](facts.data?.used_by_total ?? users.length)}</Text>
          <ul className="places">{users.slice(0, 10).map((user) => (
            <li key={`${user.kind}/${user.id}`}><Anchor component={Link} to={pageOf(user.kind, user.id) ?? '.'}>{words.oneOf[user.kind as Kind] ?? user.kind} {user.id}</Anchor></li>
          ))}</ul>
        </div>
      )}
      {!isImpossible && <Text size="sm">{words.deleteFree}</Text>}
    </>
  )
  return (
    <Deletion
      what={`${words.oneOf[kind]} ${id}`} typed={id} help={help} isImpossible={isImpossible} remove={remove} close={close}
      before={isImpossible ? undefined : <CopyButton label={words.copyCurl} text={() => curlOf(kind, id, stored.editable)} />}
    />
  )
}
