/** An object is edited, looked over and written, unless somebody else was faster. What its fields are is in `form`. */
import { Alert, Anchor, Button, Group, Stack, Text } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useBlocker, useNavigate } from '@tanstack/react-router'
import { useEffect, useMemo, useRef, useState } from 'react'
import { ApiError, call } from '../../api/client'
import type { Kind } from '../../api/types'
import { useDocument } from '../../form/document'
import { fault, memberText } from '../../lib/json-text'
import { pathAt, textAt } from '../../lib/pointer'
import { isElsewhere, useSaveKey } from '../../form/leave'
import { useSay } from '../../form/texts'
import type { EditorView } from '../../form/views'
import { announce } from '../../api/saved'
import { CopyButton } from '../../ui/copy'
import { ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { Difference } from '../../ui/difference'
import { useRefusal } from '../../ui/permission'
import { useFacts } from './about'
import { DeletedBy, Gone } from './gone'
import { Identity } from './identity'
import { KIND_FACTS, scopeOf } from './kinds'
import { EDIT_TITLES, NEW_TITLES } from './titles'
import { curlOf, pathOf, type Stored, stored as readStored, useObject } from './queries'
import { validate } from './schemas'
import { Views } from './views'

const editRoute = getRouteApi('/objects/$kind/$id/edit')
const newRoute = getRouteApi('/new/$kind')

export function ObjectEditor() {
  const { kind, id } = editRoute.useParams() as { kind: Kind; id: string }
  const { view } = editRoute.useSearch()
  const say = useSay()
  const found = useObject(kind, id)
  if (found.data === undefined && found.error instanceof ApiError && found.error.status === 404) return <Gone kind={kind} id={id} />
  if (found.data === undefined) {
    return <><ScreenHead title={`${say(EDIT_TITLES[kind])} ${id}`} />{found.isError ? <ErrorBox error={found.error} /> : <Loading />}</>
  }
  return <Editor key={`${kind}/${id}`} kind={kind} id={id} base={found.data} view={view} />
}

export function NewObject() {
  const { kind } = newRoute.useParams() as { kind: Kind }
  const { view, of } = newRoute.useSearch()
  const scope = scopeOf(kind, of)
  return <Editor key={`${kind} ${scope}`} kind={kind} scope={scope} view={view} base={NOTHING} start="{}" />
}

const NOTHING: Stored = { text: '', editable: '', revision: 0 }

/** `scope` is what a new object is of, where that comes before its id. */
interface EditorProps { kind: Kind; id?: string; scope?: string; base: Stored; start?: string; view?: EditorView }

function Editor({ kind, id, scope = '', base: first, start, view = 'form' }: EditorProps) {
  const words = useWords()
  const say = useSay()
  const navigate = useNavigate()
  const client = useQueryClient()
  const [base, setBase] = useState(first)
  const document = useDocument(start ?? first.editable)
  const { text } = document
  const setText = (next: string) => document.edit(next, 'whole')
  const [newId, setNewId] = useState('')
  const [isReviewing, review] = useState(false)
  const [attempts, setAttempts] = useState(0)
  const [error, setError] = useState<unknown>()
  const [theirs, setTheirs] = useState<Stored>()
  const [isBusy, setBusy] = useState(false)
  const isSaved = useRef(false)
  const isNew = id === undefined
  const isDeleted = theirs === NOTHING
  const broken = fault(text)
  const isChanged = text !== (start ?? base.editable)
  const { naming } = KIND_FACTS[kind]
  const typed = newId.trim()
  const target = id ?? { anybody: typed, author: typed, field: naming.by === 'field' ? (JSON.parse(memberTextOr(text, naming.field)) as string) : '', keeper: typed && `${scope}/${typed}`, plugin: scope }[naming.by]
  // What its schema and its faults depend on, before it has an id.
  const known = id ?? (scope === '' ? undefined : naming.by === 'keeper' ? `${scope}/-` : scope)
  const refused = useRefusal() ?? (target === '' && naming.by !== 'anybody' && naming.by !== 'field' ? words.idMissing : undefined)
  const sealed = useSealed(kind, id, base)
  useBlocker({ shouldBlockFn: (move) => isElsewhere(move) && isChanged && !isSaved.current && !confirm(words.unsaved), enableBeforeUnload: () => isChanged && !isSaved.current })

  const choose = (next: EditorView) => void navigate({ to: '.', search: ((before: object) => ({ ...before, view: next === 'form' ? undefined : next })) as never, replace: true, resetScroll: false })

  const startReview = async () => {
    setError(undefined)
    setAttempts((count) => count + 1)
    if (broken || refused !== undefined || !(isChanged || isNew)) return
    setBusy(true)
    try {
      // What the gateway would refuse stands over the fields by itself; only what it would take is reviewed.
      const verdict = await validate(kind, known, text)
      client.setQueryData(['verdict', kind, known, text], verdict)
      if (verdict.valid) review(true)
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  useSaveKey(startReview)
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== 'e') return
      event.preventDefault()
      choose(view === 'form' ? 'json' : 'form')
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  })
  const save = async (revision: number) => {
    setBusy(true)
    setError(undefined)
    try {
      // What is new takes the place of nothing that is there.
      const match: Record<string, string> = revision > 0 ? { 'If-Match': `"${revision}"` } : { 'If-None-Match': '*' }
      const isNumbered = isNew && target === ''
      const answer = await call(isNumbered || (isNew && naming.by === 'field') ? `/apisix/admin/${kind}` : pathOf(kind, target), { method: isNumbered ? 'POST' : 'PUT', body: text, headers: match })
      isSaved.current = true
      const key = JSON.parse(memberText(answer.text, 'key') ?? '""') as string
      const own = id ?? (isNumbered ? (key.split('/').at(-1) as string) : target)
      client.removeQueries({ queryKey: ['object', kind, own] })
      await client.invalidateQueries({ queryKey: ['objects'] })
      await client.invalidateQueries({ queryKey: ['facts'] })
      await client.invalidateQueries({ queryKey: ['changes'] })
      announce({ kind, id: own })
      await navigate({ to: `/objects/${kind}/${encodeURIComponent(own)}` })
    } catch (reason) {
      if (reason instanceof ApiError && reason.status === 412 && !isNew) {
        const current = memberText(reason.text, 'current')
        setTheirs(current === undefined ? NOTHING : readStored(current))
      } else setError(reason)
      review(false)
    } finally {
      setBusy(false)
    }
  }
  const identity = <Identity kind={kind} scope={scope} id={newId} setId={setNewId} isChanged={isChanged} />
  const title = isNew ? say(NEW_TITLES[kind]) : `${say(EDIT_TITLES[kind])} ${id}`
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to={`/objects/${kind}`}>{words[kind]}</Anchor>{!isNew && <> / <Anchor component={Link} to={`/objects/${kind}/${encodeURIComponent(id)}`} className="mono">{id}</Anchor></>}</Text>
      <ScreenHead title={title} note={isNew ? words.kindHelp[kind] : words.revision(base.revision)}>
        {!broken && <CopyButton label={words.copyCurl} text={() => curlOf(kind, target || 'ID', text)} />}
      </ScreenHead>
      {theirs && (
        <Alert color="yellow" title={isDeleted ? words.goneTheirs : words.conflict} mb="md" role="alert">
          {isDeleted ? <Text size="sm"><DeletedBy kind={kind} id={id as string} /></Text> : <><Text size="sm" fw={600} mt="xs">{words.conflictTheirs}</Text><Difference before={base.editable} after={theirs.editable} /></>}
          <Group mt="sm">
            {!isDeleted && <Button size="xs" variant="default" onClick={() => { setBase(theirs); setText(theirs.editable); setTheirs(undefined) }}>{words.takeTheirs}</Button>}
            <Button size="xs" onClick={() => { setBase(theirs); setTheirs(undefined); review(true) }}>{isDeleted ? words.makeAnew : words.keepMine}</Button>
          </Group>
        </Alert>
      )}
      {error !== undefined && <ErrorBox error={error} />}
      {isReviewing ? (
        <Stack>
          <Text fw={600}>{words.reviewTitle}</Text>
          <Difference before={isNew ? '' : base.editable} after={text} />
          <Group>
            <Button onClick={() => void save(isNew ? 0 : base.revision)} loading={isBusy} data-autofocus autoFocus>{words.save}</Button>
            <Button variant="default" onClick={() => review(false)}>{words.back}</Button>
          </Group>
        </Stack>
      ) : (
        <Stack>
          {isNew && naming.by !== 'anybody' && identity}
          <Views
            kind={kind} id={known} sealed={sealed} document={document} view={view} isChanged={isChanged || isNew} choose={choose} attempts={attempts} extra={isNew && naming.by === 'anybody' && identity}
            actions={(
              <>
                <Button onClick={() => void startReview()} loading={isBusy} disabled={broken !== undefined || refused !== undefined || (!isChanged && !isNew)} title={refused ?? (isChanged || isNew ? undefined : words.noChange)}>{words.review}</Button>
                <Button variant="default" disabled={!isChanged} onClick={() => setText(start ?? base.editable)}>{words.discard}</Button>
                {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
              </>
            )}
          />
        </Stack>
      )}
    </>
  )
}

/** The secrets of an object as they were sealed when it was read. */
function useSealed(kind: Kind, id: string | undefined, base: Stored): string[] {
  const { data } = useFacts(kind, id)
  return useMemo(() => (data?.sealed ?? []).flatMap((pointer) => {
    const text = textAt(base.editable, pathAt(pointer))
    return text?.startsWith('"') ? [JSON.parse(text) as string] : []
  }), [data, base])
}

/** A member that is a text, as JSON; an empty one where there is none. */
function memberTextOr(text: string, field: string): string {
  try {
    const found = memberText(text, field)
    return found?.startsWith('"') ? found : '""'
  } catch {
    return '""'
  }
}
