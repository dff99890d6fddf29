/** One of ShenYu's objects is edited. What its text is made of is in `document.ts`. */
import { Anchor, Button, Group, Stack, Text, Title } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useBlocker, useNavigate } from '@tanstack/react-router'
import { useRef, useState } from 'react'
import { ApiError, call } from '../../api/client'
import { useDocument } from '../../form/document'
import type { Text as Words } from '../../form/layers/layer'
import { isElsewhere, useSaveKey } from '../../form/leave'
import { missingIn } from '../../form/missing'
import { useSay } from '../../form/texts'
import { DocumentViews, type EditorView } from '../../form/views'
import { fault, memberText, pretty } from '../../lib/json-text'
import { CopyButton } from '../../ui/copy'
import { Deletion } from '../../ui/deletion'
import { Difference } from '../../ui/difference'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { closed, faults, opened, SHENYU_KINDS, type ShenyuKind } from './document'
import { Rows } from './list'
import { curlOf, layerOf, pathOf, schemaOf, useForms, usePluginName, useRows, useTold } from './queries'

const api = getRouteApi('/shenyu/$kind/$id')
const NEW = '+'

const NEW_TITLES: Record<ShenyuKind, Words> = {
  plugin: ['New plugin', '新建插件'], selector: ['New selector', '新建选择器'], rule: ['New rule', '新建规则'], 'meta-data': ['New metadata', '新建元数据'], appAuth: ['New application', '新建应用'],
}

/** Rules that are shown below a selector; the rest stand on their own page. */
const RULES_SHOWN = 50

export function ShenyuObject() {
  const words = useWords()
  const { kind: asked, id } = api.useParams()
  const search = api.useSearch()
  const kind = SHENYU_KINDS.find((one) => one === asked) ?? 'selector'
  const own = id === NEW ? undefined : id
  const told = useTold(kind, own)
  // What a new one is of, for the plugin whose settings it has.
  const selector = useTold('selector', kind === 'rule' && own === undefined ? search.in : undefined)
  const plugin = useTold('plugin', kind === 'selector' && own === undefined ? search.in : undefined)
  const waitsFor = [told, selector, plugin].find((one) => one.isFetching && one.data === undefined)
  const failed = [told, selector, plugin].find((one) => one.isError)
  if (failed) {
    const { error } = failed
    const isGone = error instanceof ApiError && error.status === 404
    return <><ScreenHead title={words.shenyuKinds[kind]} />{isGone ? <Empty><span lang="en">{error.message}</span></Empty> : <ErrorBox error={error} />}</>
  }
  if (waitsFor) return <><ScreenHead title={words.shenyuKinds[kind]} /><Loading /></>
  const above = selector.data ?? plugin.data
  const name = above === undefined ? undefined : (JSON.parse(memberText(above, kind === 'rule' ? 'pluginName' : 'name') ?? '""') as string)
  return <Editor key={`${kind}/${id}`} kind={kind} id={own} told={told.data ?? ''} plugin={name} within={search.in} view={search.view} />
}

/** What a new object begins with: what ShenYu's own console sets, and nothing that only its author knows. */
function startOf(kind: ShenyuKind, within: string | undefined): object {
  const condition = [{ paramType: 'uri', operator: 'startsWith', paramName: '/', paramValue: '' }]
  const starts: Record<ShenyuKind, object> = {
    plugin: { role: 'HttpProcess' },
    selector: { ...(within === undefined ? {} : { pluginId: within }), type: 1, matchMode: 0, selectorConditions: condition },
    rule: { ...(within === undefined ? {} : { selectorId: within }), matchMode: 0, ruleConditions: condition },
    'meta-data': {},
    appAuth: { appKey: randomKey(), appSecret: randomKey(), open: false },
  }
  return starts[kind]
}

/** 32 hexadecimal digits, as ShenYu's keys are. */
const randomKey = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, '0')).join('').toUpperCase()

interface EditorProps { kind: ShenyuKind; id: string | undefined; told: string; plugin: string | undefined; within: string | undefined; view: EditorView | undefined }

function Editor({ kind, id, told, plugin, within, view = 'form' }: EditorProps) {
  const words = useWords()
  const say = useSay()
  const navigate = useNavigate()
  const client = useQueryClient()
  const forms = useForms()
  const [base] = useState(() => (id === undefined ? pretty(JSON.stringify(startOf(kind, within))) : opened(kind, told)))
  const document = useDocument(base)
  const { text } = document
  const [isReviewing, review] = useState(false)
  const [attempts, setAttempts] = useState(0)
  const [isDeleting, deletion] = useDisclosure(false)
  const [error, setError] = useState<unknown>()
  const isDone = useRef(false)
  const isNew = id === undefined
  const broken = fault(text)
  const isChanged = isNew || text !== base
  const refused = useRefusal()
  const value = broken === undefined ? (JSON.parse(text) as Record<string, unknown>) : {}
  const member = (name: string) => (told === '' ? undefined : (JSON.parse(memberText(told, name) ?? 'null') as string | null))
  const name = member('name') ?? member('path') ?? member('appKey') ?? id ?? ''
  // Another plugin that is chosen has other settings.
  const chosen = usePluginName(kind === 'selector' ? String(value.pluginId ?? '') : '')
  const of = kind === 'plugin' ? String(value.name ?? '') : (chosen ?? plugin ?? member('pluginName') ?? '')
  const schema = forms.data && schemaOf(forms.data, kind, of, value)
  const layer = layerOf(kind, of)
  const startReview = () => {
    if (!isChanged || broken !== undefined || refused !== undefined) return
    setAttempts((count) => count + 1)
    if (schema !== undefined && missingIn(schema, layer, value, () => undefined).length === 0) review(true)
  }
  const method = isNew ? 'POST' : 'PUT'
  const path = pathOf(kind, id)
  useBlocker({ shouldBlockFn: (move) => isElsewhere(move) && text !== base && !isDone.current && !confirm(words.unsaved), enableBeforeUnload: () => text !== base && !isDone.current })
  const problems = error instanceof ApiError ? faults(error.message) : []
  const send = async (verb: string, body?: string) => {
    setError(undefined)
    try {
      await call(path, { method: verb, body })
      isDone.current = true
      await client.invalidateQueries({ queryKey: ['shenyu', kind, 'list'] })
      client.removeQueries({ queryKey: ['shenyu', kind, 'one', id] })
      // A rule is seen with its selector.
      const selector = kind === 'rule' ? String(value.selectorId ?? '') : ''
      if (selector !== '') await navigate({ to: '/shenyu/$kind/$id', params: { kind: 'selector', id: selector } })
      else await navigate({ to: '/shenyu/$kind', params: { kind }, search: kind === 'selector' ? { in: String(value.pluginId ?? '') || undefined } : {} })
    } catch (reason) {
      setError(reason)
      setAttempts((count) => count + 1)
      review(false)
    }
  }
  useSaveKey(startReview)
  return (
    <>
      <Text size="sm" mb={4} className="crumbs">
        <Anchor component={Link} to={`/shenyu/${kind === 'rule' ? 'selector' : kind}`}>{words.shenyuKinds[kind === 'rule' ? 'selector' : kind]}</Anchor>
        {kind === 'rule' && typeof value.selectorId === 'string' && <> / <Anchor component={Link} to={`/shenyu/selector/${encodeURIComponent(value.selectorId)}`} className="mono">{value.selectorId}</Anchor></>}
        {id && <> / <span className="mono">{id}</span></>}
      </Text>
      <ScreenHead title={isNew ? say(NEW_TITLES[kind]) : name} note={[words.shenyuHelp[kind], kind !== 'plugin' && of !== '' ? `${words.plugin}: ${of}.` : ''].filter(Boolean).join(' ')}>
        {!broken && <CopyButton label={words.copyCurl} text={() => curlOf(method, path, closed(kind, text, told))} />}
        {!isNew && <Button size="xs" data-delete color="red" variant="light" disabled={refused !== undefined} title={refused} onClick={deletion.open}>{words.remove}</Button>}
      </ScreenHead>
      {error !== undefined && problems.length === 0 && <ErrorBox error={error} />}
      {isReviewing ? (
        <Stack>
          <Text fw={600}>{words.reviewTitle}</Text>
          <Difference before={isNew ? '' : base} after={text} />
          <Group><Button onClick={() => void send(method, closed(kind, text, told))} autoFocus>{words.save}</Button><Button variant="default" onClick={() => review(false)}>{words.back}</Button></Group>
        </Stack>
      ) : (
        <Stack>
          <DocumentViews
            schema={schema} layer={layer} document={document} view={view} problems={problems} isTaken={false} attempts={attempts}
            choose={(next) => void navigate({ to: '.', search: (before) => ({ ...before, view: next === 'form' ? undefined : next }), replace: true, resetScroll: false })}
            instead={forms.isError ? <ErrorBox error={forms.error} /> : forms.data === undefined ? <Loading /> : undefined}
            actions={(
              <>
                <Button disabled={broken !== undefined || refused !== undefined || !isChanged} title={refused ?? (isChanged ? undefined : words.noChange)} onClick={startReview}>{words.review}</Button>
                <Button variant="default" disabled={text === base} onClick={() => document.edit(base, 'whole')}>{words.discard}</Button>
                {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
              </>
            )}
          />
          {kind === 'selector' && id && <Rules selector={id} refused={refused} />}
        </Stack>
      )}
      {isDeleting && <Deletion what={`${words.shenyuOne[kind]} ${name}`} typed={name} help={words.shenyuDelete[kind]} close={deletion.close} remove={() => send('DELETE').finally(deletion.close)} />}
    </>
  )
}

/** The rules of a selector. */
function Rules({ selector, refused }: { selector: string; refused: string | undefined }) {
  const words = useWords()
  const { data } = useRows('rule', { in: selector }, RULES_SHOWN)
  return (
    <section>
      <Group justify="space-between" mt="md" mb="xs">
        <Title order={2} size="h4">{words.shenyuKinds.rule}</Title>
        <Button size="xs" data-new variant="default" component={Link} to="/shenyu/rule/+" search={{ in: selector } as never} disabled={refused !== undefined} title={refused}>{words.shenyuNewRule}</Button>
      </Group>
      {data && (data.rows.length === 0 ? <Empty>{words.shenyuNoRules}</Empty> : <Scroll><Rows kind="rule" rows={data.rows} /></Scroll>)}
      {data && data.total > data.rows.length && <Anchor component={Link} to="/shenyu/rule" search={{ in: selector } as never} size="sm">{words.total(data.total)}</Anchor>}
    </section>
  )
}
