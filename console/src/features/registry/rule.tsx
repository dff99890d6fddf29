/** One governance rule: what it says in sentences, its form and its text as two views of one document, and the switch. */
import { Anchor, Button, Group, NativeSelect, Stack, Switch, Text } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useBlocker, useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { ApiError, call, json } from '../../api/client'
import { quoted } from '../../lib/curl'
import { fault, memberText, pretty, withoutMembers } from '../../lib/json-text'
import { CopyButton } from '../../ui/copy'
import { Deletion } from '../../ui/deletion'
import { Difference } from '../../ui/difference'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { useRefusal } from '../../ui/permission'
import type { Problem } from '../../form/context'
import { useDocument } from '../../form/document'
import { isElsewhere, useSaveKey } from '../../form/leave'
import { RULE_LAYERS } from '../../form/layers/rules/all'
import { type Age, missingIn } from '../../form/missing'
import type { Schema } from '../../form/plan'
import { TEXTS, useSay } from '../../form/texts'
import { DocumentViews, type EditorView } from '../../form/views'
import { isRuleKind, RULE_KINDS, RULE_STARTS, type RuleKind } from './kinds'
import { sentencesOf } from './sentence'

/** What the gateway says of a rule and nobody writes. */
const OWN = ['revision', 'ctime', 'mtime', 'etime']

/** The gateway judges a rule when it is written. */
const NO_PROBLEMS: Problem[] = []

/** Kinds without a switch of their own: they are on as long as they are there. */
const ALWAYS_ON: readonly RuleKind[] = ['fault-detector', 'lane', 'lossless', 'routing-v1']
export const hasSwitch = (kind: RuleKind) => !ALWAYS_ON.includes(kind)

const api = getRouteApi('/registry/rules/$kind/$id')
const NEW = '+'

export function RegistryRule() {
  const words = useWords()
  const { kind: asked, id } = api.useParams()
  const kind = isRuleKind(asked) ? asked : 'routing'
  const { view } = api.useSearch()
  const path = `/registry/v1/rules/${kind}/${encodeURIComponent(id)}`
  const isNew = id === NEW
  const found = useQuery({
    queryKey: ['rule', kind, id],
    enabled: !isNew,
    refetchOnWindowFocus: false,
    queryFn: async ({ signal }) => {
      const { text } = await call(path, { signal })
      return { name: JSON.parse(memberText(text, 'name') ?? '""') as string, isOn: memberText(text, 'enabled') === 'true', text: pretty(withoutMembers(memberText(text, 'rule') ?? '{}', OWN)) }
    },
  })
  if (isNew) return <Editor key={kind} kind={kind} view={view} path={`/registry/v1/rules/${kind}`} name="" base="" start={pretty(JSON.stringify(RULE_STARTS[kind]))} />
  if (found.error instanceof ApiError && found.error.status === 404) return <><ScreenHead title={words.rules} /><Empty>{words.gone}</Empty></>
  if (found.data === undefined) return <><ScreenHead title={words.rules} />{found.isError ? <ErrorBox error={found.error} /> : <Loading />}</>
  return <Editor key={`${path} ${found.data.isOn}`} kind={kind} id={id} view={view} path={path} name={found.data.name} base={found.data.text} isOn={found.data.isOn} />
}

interface EditorProps { kind: RuleKind; id?: string; view?: EditorView; path: string; name: string; base: string; start?: string; isOn?: boolean }

function Editor({ kind, id, view = 'form', path, name, base, start, isOn = false }: EditorProps) {
  const words = useWords()
  const client = useQueryClient()
  const navigate = useNavigate()
  const document = useDocument(start ?? base)
  const { text } = document
  const schema = useRuleSchema(kind)
  const [isReviewing, review] = useState(false)
  const [attempts, setAttempts] = useState(0)
  const say = useSay()
  const [isDeleting, deletion] = useDisclosure(false)
  const [error, setError] = useState<unknown>()
  const isDone = useRef(false)
  const broken = fault(text)
  const [readable, setReadable] = useState(text)
  if (broken === undefined && readable !== text) setReadable(text)
  const isChanged = text !== (start ?? base)
  const refused = useRefusal('registry')
  useBlocker({ shouldBlockFn: (move) => isElsewhere(move) && isChanged && !isDone.current && !confirm(words.unsaved), enableBeforeUnload: () => isChanged && !isDone.current })
  const isNew = id === undefined
  const method = isNew ? 'POST' : 'PUT'
  const startReview = () => {
    if (broken !== undefined || refused !== undefined || !(isNew || isChanged)) return
    // What a rule lacked before may be lacking still: the registry took it.
    const lacks = missingPlaces(schema.data, kind, text, isNew ? 'new' : 'stored')
    const lacked = new Set(isNew ? [] : missingPlaces(schema.data, kind, base, 'stored'))
    if (lacks.every((place) => lacked.has(place))) review(true)
    else setAttempts((count) => count + 1)
  }
  useSaveKey(startReview)
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
      <ScreenHead title={name || (id ?? words.shenyuNewRule)} note={words.ruleHelp[kind]}>
        {!broken && <CopyButton label={words.copyCurl} text={() => `curl -X ${method} ${quoted(location.origin + path)} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(text)}`} />}
        {id !== undefined && <Button size="xs" color="red" variant="light" disabled={refused !== undefined} title={refused} onClick={deletion.open}>{words.remove}</Button>}
      </ScreenHead>
      {error !== undefined && <ErrorBox error={error} />}
      {isNew && <NativeSelect className="choice" mb="md" maw={360} label={say(TEXTS.ruleKind)} value={kind} data={RULE_KINDS.map((one) => ({ value: one, label: words.ruleKinds[one] }))} onChange={(event) => void navigate({ to: '/registry/rules/$kind/$id', params: { kind: event.currentTarget.value, id: NEW } })} />}
      {id !== undefined && hasSwitch(kind) && <Switching path={path} isOn={isOn} refused={refused ?? (isChanged ? words.switchLater : undefined)} fail={setError} />}
      <Sentences kind={kind} text={readable} />
      {isReviewing ? (
        <Stack>
          <Text fw={600}>{words.reviewTitle}</Text>
          <Difference before={base} after={text} />
          <Group><Button onClick={() => void send(method, text)} autoFocus>{words.save}</Button><Button variant="default" onClick={() => review(false)}>{words.back}</Button></Group>
        </Stack>
      ) : (
        <Stack>
          <DocumentViews
            schema={schema.data} layer={RULE_LAYERS[kind]} document={document} view={view} problems={NO_PROBLEMS} isTaken={false} attempts={attempts} place={isNew ? undefined : `rules/${kind}`}
            choose={(next) => void navigate({ to: '.', search: ((before: object) => ({ ...before, view: next === 'form' ? undefined : next })) as never, replace: true, resetScroll: false })}
            instead={schema.isError ? <ErrorBox error={schema.error} retry={() => void schema.refetch()} /> : schema.data === undefined ? <Loading /> : undefined}
            actions={(
              <>
                <Button disabled={broken !== undefined || refused !== undefined || (!isNew && !isChanged)} title={refused ?? (isNew || isChanged ? undefined : words.noChange)} onClick={startReview}>{words.review}</Button>
                <Button variant="default" disabled={!isChanged} onClick={() => document.edit(start ?? base, 'whole')}>{words.discard}</Button>
                {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
              </>
            )}
          />
        </Stack>
      )}
      {isDeleting && <Deletion what={name || (id ?? '')} typed={name || (id ?? '')} help={words.deleteRuleHelp} close={deletion.close} remove={() => send('DELETE').finally(deletion.close)} />}
    </>
  )
}

/** Places of what a rule still needs. */
const missingPlaces = (schema: Schema | undefined, kind: RuleKind, text: string, age: Age): string[] =>
  schema === undefined ? [] : missingIn(schema, RULE_LAYERS[kind], JSON.parse(text || '{}'), () => undefined, age).map(({ path }) => path.join('/'))

/** What rules of a kind are made of; it changes with the program only. */
const useRuleSchema = (kind: RuleKind) =>
  useQuery({
    queryKey: ['rule-schema', kind],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<Schema>(`/console/v1/schema/rules/${kind}`, { signal }),
  })

/** What the rule says, as far as it can be read. */
function Sentences({ kind, text }: { kind: RuleKind; text: string }) {
  const words = useWords()
  const sentences = sentencesOf(kind, JSON.parse(text || '{}'), words)
  if (sentences.length === 0) return null
  return (
    <section className="card sentence" aria-label={words.ruleSays} style={{ marginBottom: 16 }}>
      {sentences.map((sentence, at) => <p key={at}>{sentence}</p>)}
    </section>
  )
}

/** Turns a rule on and off at once, without writing the rest of it. */
function Switching({ path, isOn, refused, fail }: { path: string; isOn: boolean; refused: string | undefined; fail: (reason: unknown) => void }) {
  const words = useWords()
  const client = useQueryClient()
  const turn = async (enabled: boolean) => {
    fail(undefined)
    try {
      await call(path, { method: 'PATCH', body: JSON.stringify({ enabled }) })
      await client.invalidateQueries({ queryKey: ['rules'] })
      await client.invalidateQueries({ queryKey: ['rule'] })
    } catch (reason) {
      fail(reason)
    }
  }
  return <Switch mb="md" label={words.ruleIsOn} checked={isOn} disabled={refused !== undefined} title={refused} onChange={(event) => void turn(event.currentTarget.checked)} />
}
