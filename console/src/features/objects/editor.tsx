import { Alert, Anchor, Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useBlocker, useNavigate } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { ApiError, call } from '../../api/client'
import { useWho } from '../../api/session'
import type { Kind } from '../../api/types'
import { useDocument } from '../../form/document'
import { fault, memberText, pretty } from '../../lib/json-text'
import type { EditorView } from '../../form/views'
import { announce } from '../../api/saved'
import { CopyButton } from '../../ui/copy'
import { ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'
import { Difference } from '../../ui/difference'
import { whyNot } from '../../ui/permission'
import { curlOf, pathOf, type Stored, stored as readStored, useObject } from './queries'
import { validate } from './schemas'
import { TEMPLATES } from './templates'
import { Views } from './views'

const editRoute = getRouteApi('/objects/$kind/$id/edit')
const newRoute = getRouteApi('/new/$kind')

export function ObjectEditor() {
  const words = useWords()
  const { kind, id } = editRoute.useParams() as { kind: Kind; id: string }
  const { view } = editRoute.useSearch()
  const found = useObject(kind, id)
  if (found.data === undefined) {
    return <><ScreenHead title={`${words.edit}: ${id}`} />{found.isError ? <ErrorBox error={found.error} /> : <Loading />}</>
  }
  return <Editor key={`${kind}/${id}`} kind={kind} id={id} base={found.data} view={view} />
}

export function NewObject() {
  const { kind } = newRoute.useParams() as { kind: Kind }
  const { view } = newRoute.useSearch()
  return <Editor key={kind} kind={kind} view={view} base={{ text: '', editable: '', revision: 0 }} start={pretty(JSON.stringify(TEMPLATES[kind]))} />
}

/** Objects whose id is a field of theirs. */
const NAMED_BY: Partial<Record<Kind, string>> = { consumers: 'username' }

interface EditorProps { kind: Kind; id?: string; base: Stored; start?: string; view?: EditorView }

function Editor({ kind, id, base: first, start, view = 'both' }: EditorProps) {
  const words = useWords()
  const who = useWho()
  const navigate = useNavigate()
  const client = useQueryClient()
  const [base, setBase] = useState(first)
  const document = useDocument(start ?? first.editable)
  const { text } = document
  const setText = (next: string) => document.edit(next, 'whole')
  const [newId, setNewId] = useState('')
  const [isReviewing, review] = useState(false)
  const [error, setError] = useState<unknown>()
  const [theirs, setTheirs] = useState<Stored>()
  const [isBusy, setBusy] = useState(false)
  const isSaved = useRef(false)
  const isNew = id === undefined
  const broken = fault(text)
  const isChanged = text !== (start ?? base.editable)
  const field = NAMED_BY[kind]
  const target = id ?? (field ? JSON.parse(memberTextOr(text, field)) : newId.trim())
  const refused = whyNot(who, words)
  useBlocker({ shouldBlockFn: ({ current, next }) => current.pathname !== next.pathname && isChanged && !isSaved.current && !confirm(words.unsaved), enableBeforeUnload: () => isChanged && !isSaved.current })

  const startReview = async () => {
    setError(undefined)
    if (broken || refused !== undefined) return
    setBusy(true)
    try {
      // What the gateway would refuse stands over the fields by itself; only what it would take is reviewed.
      const verdict = await validate(kind, id, text)
      if (verdict.valid) review(true)
    } catch (reason) {
      setError(reason)
    } finally {
      setBusy(false)
    }
  }
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key === 's') {
        event.preventDefault()
        if (isChanged || isNew) void startReview()
      }
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  })
  const save = async (revision: number) => {
    setBusy(true)
    setError(undefined)
    try {
      const match: Record<string, string> = revision > 0 ? { 'If-Match': `"${revision}"` } : {}
      const path = isNew && target === '' ? `/apisix/admin/${kind}` : isNew && field ? `/apisix/admin/${kind}` : pathOf(kind, target)
      const method = isNew && target === '' ? 'POST' : 'PUT'
      const answer = await call(path, { method, body: text, headers: match })
      isSaved.current = true
      const key = JSON.parse(memberText(answer.text, 'key') ?? '""') as string
      const own = id ?? (key.split('/').at(-1) as string)
      client.setQueryData(['object', kind, own], readStored(answer.text))
      await client.invalidateQueries({ queryKey: ['objects'] })
      await client.invalidateQueries({ queryKey: ['facts'] })
      await client.invalidateQueries({ queryKey: ['changes'] })
      announce({ kind, id: own })
      await navigate({ to: `/objects/${kind}/${encodeURIComponent(own)}` })
    } catch (reason) {
      if (reason instanceof ApiError && reason.status === 412) {
        const current = memberText(reason.text, 'current')
        setTheirs(current === undefined ? { text: '', editable: '', revision: 0 } : readStored(current))
      } else setError(reason)
      review(false)
    } finally {
      setBusy(false)
    }
  }
  const title = isNew ? `${words.create}: ${words[kind]}` : `${words.edit}: ${id}`
  return (
    <>
      <Text size="sm" mb={4}><Anchor component={Link} to={`/objects/${kind}`}>{words[kind]}</Anchor>{!isNew && <> / <Anchor component={Link} to={`/objects/${kind}/${encodeURIComponent(id)}`} className="mono">{id}</Anchor></>}</Text>
      <ScreenHead title={title} note={isNew ? words.kindHelp[kind] : words.revision(base.revision)}>
        {!broken && <CopyButton label={words.copyCurl} text={() => curlOf(kind, String(target || 'ID'), text)} />}
      </ScreenHead>
      {theirs && (
        <Alert color="yellow" title={words.conflict} mb="md" role="alert">
          <Text size="sm" fw={600} mt="xs">{words.conflictTheirs}</Text>
          <Difference before={base.editable} after={theirs.editable} />
          <Group mt="sm">
            <Button size="xs" variant="default" onClick={() => { setBase(theirs); setText(theirs.editable); setTheirs(undefined) }}>{words.takeTheirs}</Button>
            <Button size="xs" onClick={() => { setBase(theirs); setTheirs(undefined); review(true) }}>{words.keepMine}</Button>
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
          {isNew && !field && <TextInput label={words.newId} value={newId} maw={420} placeholder="orders-v1" onChange={(event) => setNewId(event.currentTarget.value)} />}
          <Views
            kind={kind} id={id} document={document} view={view} isChanged={isChanged || isNew}
            choose={(next) => void navigate({ to: '.', search: next === 'both' ? {} : { view: next }, replace: true, resetScroll: false })}
          />
          <Group justify="space-between">
            <Group>
              <Button onClick={() => void startReview()} loading={isBusy} disabled={broken !== undefined || refused !== undefined || (!isChanged && !isNew)} title={refused ?? (isChanged ? undefined : words.noChange)}>{words.review}</Button>
              <Button variant="default" disabled={!isChanged} onClick={() => setText(start ?? base.editable)}>{words.discard}</Button>
            </Group>
            {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
          </Group>
        </Stack>
      )}
    </>
  )
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
