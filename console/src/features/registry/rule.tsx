import { Anchor, Button, Group, Modal, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useBlocker, useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { ApiError, call } from '../../api/client'
import { quoted } from '../../lib/curl'
import { fault, memberText, pretty, withoutMembers } from '../../lib/json-text'
import { CopyButton } from '../../ui/copy'
import { Difference } from '../../ui/difference'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { useRefusal } from '../../ui/permission'

export const RULE_KINDS = [
  'routing', 'nearby-routing', 'rate-limit', 'circuit-breaker', 'fault-detector', 'lane', 'lossless', 'block-allow', 'traffic-mirroring', 'fault-injection', 'routing-v1',
] as const
export type RuleKind = (typeof RULE_KINDS)[number]

export interface Rule { kind: RuleKind; id: string; name: string; namespace: string; enabled: boolean }

/** What a new rule begins with: names that must be replaced, and the least that its kind takes. */
const STARTS: Partial<Record<RuleKind, object>> = {
  routing: {
    name: 'canary', namespace: 'default', enable: true, routing_policy: 'RulePolicy', priority: 0,
    routing_config: {
      '@type': 'type.googleapis.com/v1.RuleRoutingConfig',
      rules: [{
        name: 'all to v2',
        sources: [{ service: '*', namespace: '*', arguments: [] }],
        destinations: [{ service: 'orders', namespace: 'default', labels: { version: { type: 'EXACT', value: '2.0.0' } }, weight: 100, priority: 0, isolate: false }],
      }],
    },
  },
  'rate-limit': {
    name: 'limit', namespace: 'default', service: 'orders', resource: 'QPS', type: 'GLOBAL', disable: false,
    amounts: [{ maxAmount: 100, validDuration: '1s' }],
  },
}

/** What the gateway says of a rule and nobody writes. */
const OWN = ['revision', 'ctime', 'mtime', 'etime']

const api = getRouteApi('/registry/rules/$kind/$id')
const NEW = '+'

export function RegistryRule() {
  const words = useWords()
  const { kind, id } = api.useParams() as { kind: RuleKind; id: string }
  const path = `/registry/v1/rules/${kind}/${encodeURIComponent(id)}`
  const isNew = id === NEW
  const found = useQuery({
    queryKey: ['rule', kind, id],
    enabled: !isNew,
    refetchOnWindowFocus: false,
    queryFn: async ({ signal }) => {
      const { text } = await call(path, { signal })
      return { name: JSON.parse(memberText(text, 'name') ?? '""') as string, text: pretty(withoutMembers(memberText(text, 'rule') ?? '{}', OWN)) }
    },
  })
  if (isNew) return <Editor kind={kind} path={`/registry/v1/rules/${kind}`} name="" base="" start={JSON.stringify(STARTS[kind] ?? { name: 'new', namespace: 'default' }, null, 2)} />
  if (found.error instanceof ApiError && found.error.status === 404) return <><ScreenHead title={words.rules} /><Empty>{words.gone}</Empty></>
  if (found.data === undefined) return <><ScreenHead title={words.rules} />{found.isError ? <ErrorBox error={found.error} /> : <Loading />}</>
  return <Editor key={path} kind={kind} id={id} path={path} name={found.data.name} base={found.data.text} />
}

function Editor({ kind, id, path, name, base, start }: { kind: RuleKind; id?: string; path: string; name: string; base: string; start?: string }) {
  const words = useWords()
  const client = useQueryClient()
  const navigate = useNavigate()
  const [text, setText] = useState(start ?? base)
  const [isReviewing, review] = useState(false)
  const [isDeleting, deletion] = useDisclosure(false)
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<unknown>()
  const isDone = useRef(false)
  const broken = fault(text)
  const isChanged = text !== (start ?? base)
  const refused = useRefusal('registry')
  useBlocker({ shouldBlockFn: () => isChanged && !isDone.current && !confirm(words.unsaved), enableBeforeUnload: () => isChanged && !isDone.current })
  const method = id === undefined ? 'POST' : 'PUT'
  const send = async (verb: string, body?: string) => {
    setError(undefined)
    try {
      await call(path, { method: verb, body })
      isDone.current = true
      await client.invalidateQueries({ queryKey: ['rules'] })
      client.removeQueries({ queryKey: ['rule', kind] })
      await navigate({ to: '/registry/rules', search: { kind } })
    } catch (reason) {
      setError(reason)
      review(false)
    }
  }
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/registry/rules">{words.rules}</Anchor> / {words.ruleKinds[kind] ?? kind}</Text>
      <ScreenHead title={name || (id ?? words.create)} note={words.ruleHelp[kind]}>
        {!broken && <CopyButton label={words.copyCurl} text={() => `curl -X ${method} ${quoted(location.origin + path)} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(text)}`} />}
        {id !== undefined && <Button size="xs" color="red" variant="light" disabled={refused !== undefined} title={refused} onClick={deletion.open}>{words.remove}</Button>}
      </ScreenHead>
      {error !== undefined && <ErrorBox error={error} />}
      {isReviewing ? (
        <Stack>
          <Text fw={600}>{words.reviewTitle}</Text>
          <Difference before={base} after={text} />
          <Group><Button onClick={() => void send(method, text)} autoFocus>{words.save}</Button><Button variant="default" onClick={() => review(false)}>{words.back}</Button></Group>
        </Stack>
      ) : (
        <Stack>
          <Textarea className="editor" aria-label={words.json} spellCheck={false} autosize minRows={14} maxRows={36} value={text} readOnly={refused !== undefined}
            onChange={(event) => setText(event.currentTarget.value)} error={broken && words.brokenJson(broken.line, broken.reason)} />
          <Group>
            <Button disabled={broken !== undefined || refused !== undefined || (id !== undefined && !isChanged)} title={refused} onClick={() => review(true)}>{words.review}</Button>
            <Button variant="default" disabled={!isChanged} onClick={() => setText(start ?? base)}>{words.discard}</Button>
          </Group>
        </Stack>
      )}
      <Modal opened={isDeleting} onClose={deletion.close} title={words.deleteTitle(name || (id ?? ''))}>
        <Stack>
          <Text size="sm">{words.deleteRuleHelp}</Text>
          <TextInput label={words.name} placeholder={name || id} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} data-autofocus />
          <Group justify="flex-end"><Button variant="default" onClick={deletion.close}>{words.cancel}</Button><Button color="red" disabled={typed !== (name || id)} onClick={() => void send('DELETE')}>{words.remove}</Button></Group>
        </Stack>
      </Modal>
    </>
  )
}
