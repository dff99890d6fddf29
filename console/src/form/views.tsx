/** The form and the text of one document beside each other. Who keeps it is not known here. */
import { Alert, Button, Group, List, SegmentedControl, Stack, Text, Textarea } from '@mantine/core'
import { useState } from 'react'
import { fault } from '../lib/json-text'
import { useWords } from '../words/words'
import { FormProvider, type Problem } from './context'
import type { useDocument } from './document'
import { ObjectFields } from './fields/object'
import { planOf, type Schema } from './plan'

/** Which views of a document are shown. */
export type EditorView = 'form' | 'json' | 'both'

interface Props {
  /** What the document may hold; undefined while that is not known, or cannot be. */
  schema: Schema | undefined
  document: ReturnType<typeof useDocument>
  view: EditorView
  choose: (view: EditorView) => void
  problems: Problem[]
  /** Secrets as they are sealed. */
  sealed?: readonly string[]
  /** Whether the gateway has said that it would take the document as it is. */
  isTaken: boolean
  /** Whether plugins say who somebody is. */
  isIdentity?: boolean
  /** What stands in the place of the form. */
  instead?: React.ReactNode
}

/** Lines of the text that are in sight. */
const TEXT_ROWS = 36

/** Letters of a text whose height is measured with each edit; of a longer one that takes seconds, and it fills its field anyway. */
const MEASURED_MAX = 100_000

const NONE: readonly string[] = []

/** The two views of a document: the form that its schema makes, and its text. */
export function DocumentViews({ schema, document, view, choose, problems, sealed = NONE, isTaken, isIdentity = false, instead }: Props) {
  const words = useWords()
  const { text } = document
  const broken = fault(text)
  const [readable, setReadable] = useState(text)
  if (broken === undefined && readable !== text) setReadable(text)
  const views = [{ value: 'form', label: words.form }, { value: 'both', label: words.both }, { value: 'json', label: words.json }]
  return (
    <Stack>
      <Group justify="space-between">
        <SegmentedControl size="xs" aria-label={words.view} data={views} value={view} onChange={(next) => choose(next as EditorView)} />
        <Group gap="xs">
          {isTaken && broken === undefined && <Text size="sm" c="dimmed" role="status">{words.valid}</Text>}
          <Button size="xs" variant="default" disabled={!document.canUndo} onClick={document.undo}>{words.undo}</Button>
          <Button size="xs" variant="default" disabled={!document.canRedo} onClick={document.redo}>{words.redo}</Button>
        </Group>
      </Group>
      {problems.length > 0 && <Problems problems={problems} />}
      <div className={`views ${view}`} onKeyDown={(event) => { stepByKey(event, document); problemByKey(event) }}>
        {view !== 'json' && (instead ?? <FormView schema={schema} text={readable} problems={problems} sealed={sealed} edit={document.edit} isStale={broken !== undefined} isIdentity={isIdentity} />)}
        {view !== 'form' && (
          <Textarea
            className="editor text-view" aria-label={words.json} spellCheck={false} {...(text.length > MEASURED_MAX ? { rows: TEXT_ROWS } : { autosize: true, minRows: 16, maxRows: TEXT_ROWS })}
            value={text} onChange={(event) => document.edit(event.currentTarget.value, 'text')}
            error={broken && words.brokenJson(broken.line, broken.reason)}
          />
        )}
      </div>
    </Stack>
  )
}

/** Steps back and forth are the document's: a field's own would know nothing of the other view. */
function stepByKey(event: React.KeyboardEvent, document: Props['document']) {
  if (!(event.ctrlKey || event.metaKey)) return
  const key = event.key.toLowerCase()
  const isRedo = key === 'y' || (key === 'z' && event.shiftKey)
  if (key !== 'z' && !isRedo) return
  event.preventDefault()
  if (isRedo) document.redo()
  else document.undo()
}

/** Alt with an arrow goes from field to field of those that the gateway has a word about. */
function problemByKey(event: React.KeyboardEvent<HTMLElement>) {
  const step = event.altKey ? { ArrowDown: 1, ArrowUp: -1 }[event.key] : undefined
  const faulty = [...event.currentTarget.querySelectorAll<HTMLElement>('[aria-invalid=true]:not(.text-view textarea)')]
  if (step === undefined || faulty.length === 0) return
  event.preventDefault()
  const at = faulty.indexOf(document.activeElement as HTMLElement)
  // From elsewhere to the first below, or the last above.
  const below = faulty.findIndex((it) => (document.activeElement?.compareDocumentPosition(it) ?? 0) & Node.DOCUMENT_POSITION_FOLLOWING)
  const next = at >= 0 ? at + step : step > 0 ? below : (below < 0 ? faulty.length : below) - 1
  faulty[(next + faulty.length) % faulty.length]?.focus()
}

function FormView({ schema, text, problems, sealed, edit, isStale, isIdentity }: { schema: Schema | undefined; text: string; problems: Problem[]; sealed: readonly string[]; edit: Props['document']['edit']; isStale: boolean; isIdentity: boolean }) {
  const words = useWords()
  if (schema === undefined) return null
  const value: unknown = JSON.parse(text || '{}')
  const plan = planOf(schema, value)
  if (plan.kind !== 'object') return null
  return (
    <Stack gap="xs">
      {isStale && <Text size="sm" c="orange" role="status">{words.formStale}</Text>}
      <fieldset disabled={isStale} className={isStale ? 'bare stale' : 'bare'}>
        <FormProvider text={text} problems={problems} sealed={sealed} isIdentity={isIdentity} edit={edit}>
          <ObjectFields path={[]} plan={plan} value={value} />
        </FormProvider>
      </fieldset>
    </Stack>
  )
}

/** All that the gateway would refuse, whether its field is in sight or not. */
function Problems({ problems }: { problems: Problem[] }) {
  const words = useWords()
  return (
    <Alert color="red" variant="light" role="alert" title={words.faults(problems.length)}>
      <List size="sm" lang="en">
        {problems.map((problem, at) => (
          <List.Item key={at}><span className="mono">{problem.pointer || words.wholeObject}</span>: {problem.text}</List.Item>
        ))}
      </List>
    </Alert>
  )
}
