/** The form and the text of one document. Who keeps it is not known here. */
import { Alert, Button, Group, List, SegmentedControl, Stack, Text, Textarea } from '@mantine/core'
import { useEffect, useMemo, useRef, useState } from 'react'
import { fault } from '../lib/json-text'
import { pathAt, pointerOf, renameAt, setAt } from '../lib/pointer'
import { useWords } from '../words/words'
import { FormProvider, type Problem } from './context'
import type { useDocument } from './document'
import { DocumentFields } from './fields/object'
import { usePluginFacts } from './fields/plugin-facts'
import './form.css'
import type { Layer } from './layers/layer'
import { type Age, type Missing, missingIn } from './missing'
import { planOf, type Schema } from './plan'
import { TEXTS, useSay } from './texts'

/** Which views of a document are shown. */
export type EditorView = 'form' | 'json' | 'both'

interface Props {
  /** What the document may hold; undefined while that is not known, or cannot be. */
  schema: Schema | undefined
  /** Order, titles and help over the schema. */
  layer?: Layer
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
  /** Where the object is, such as `upstreams/orders`. */
  place?: string
  /** How often it was tried to save. Before the first time only faults of fields that were edited are shown. */
  attempts?: number
  /** What stands in the place of the form. */
  instead?: React.ReactNode
  /** What is done with the document; it stays in sight. */
  actions?: React.ReactNode
  /** What is asked beside the document, below its form. */
  extra?: React.ReactNode
}

/** Lines of the text that are in sight. */
const TEXT_ROWS = 36

/** Letters of a text whose height is measured with each edit; of a longer one that takes seconds, and it fills its field anyway. */
const MEASURED_MAX = 100_000

const NONE: readonly string[] = []

/** What edits of the text are called, which are edits of everywhere. */
const TEXT = 'text'

/** The two views of a document: the form that its schema and its layer make, and its text. */
export function DocumentViews({ schema, layer, document, view, choose, problems, sealed = NONE, isTaken, isIdentity = false, place, attempts = 1, instead, actions, extra }: Props) {
  const words = useWords()
  const { text } = document
  const broken = fault(text)
  const [readable, setReadable] = useState(text)
  if (broken === undefined && readable !== text) setReadable(text)
  const [touched, touch] = useState<ReadonlySet<string>>(new Set())
  const edit = (next: string, at: string) => {
    if (!touched.has(at)) touch(new Set(touched).add(at))
    document.edit(next, at)
  }
  const missing = useMissing(schema, layer, readable, isIdentity, place === undefined ? 'new' : 'stored')
  const all = useAllProblems(problems, missing)
  const isTried = attempts > 0 || touched.has(TEXT)
  const shown = useMemo(() => (isTried ? all : all.filter((problem) => problem.pointer !== '' && touched.has(problem.pointer))), [all, isTried, touched])
  const frame = useFirstFault(attempts)
  const views = [{ value: 'form', label: words.form }, { value: 'both', label: words.both }, { value: 'json', label: words.json }]
  const status = isTaken && broken === undefined && missing.length === 0 ? <span className="bar-good">{words.valid}</span> : <StillNeeded missing={missing} />
  return (
    <Stack>
      <Group justify="space-between">
        <SegmentedControl size="xs" aria-label={words.view} data={views} value={view} onChange={(next) => choose(next as EditorView)} />
        <Group gap="xs">
          {!actions && isTaken && broken === undefined && <Text size="sm" c="dimmed" role="status">{words.valid}</Text>}
          <Button size="xs" variant="default" disabled={!document.canUndo} onClick={document.undo}>{words.undo}</Button>
          <Button size="xs" variant="default" disabled={!document.canRedo} onClick={document.redo}>{words.redo}</Button>
        </Group>
      </Group>
      {isTried && shown.length > 0 && <Problems problems={shown} fix={(problem, meant) => document.edit(fixed(text, problem, meant), `fix ${problem.pointer}`)} />}
      <div ref={frame} className={`views ${view}`} onKeyDown={(event) => { stepByKey(event, document); problemByKey(event) }}>
        {view !== 'json' && (instead ?? (
          <FormView schema={schema} layer={layer} text={readable} isStale={broken !== undefined} provider={{ problems: shown, sealed, isIdentity, place, edit }} />
        ))}
        {view !== 'form' && (
          <Textarea
            className="editor text-view" aria-label={words.json} spellCheck={false} {...(text.length > MEASURED_MAX ? { rows: TEXT_ROWS } : { autosize: true, minRows: 16, maxRows: TEXT_ROWS })}
            value={text} onChange={(event) => edit(event.currentTarget.value, TEXT)}
            error={broken && words.brokenJson(broken.line, broken.reason)}
          />
        )}
      </div>
      {extra}
      {actions && <div className="bar"><Group gap="sm">{actions}</Group><div role="status" className="bar-status">{status}</div></div>}
    </Stack>
  )
}

/** What the document still needs, in words and without blame: nothing was tried yet. */
function StillNeeded({ missing }: { missing: Missing[] }) {
  const say = useSay()
  if (missing.length === 0) return null
  return <>{say(TEXTS.stillNeeded)} {missing.map(({ title }) => say(title)).join(', ')}</>
}

/** What is missing in the document, as far as the schemas of its plugins are known. */
function useMissing(schema: Schema | undefined, layer: Layer | undefined, text: string, isIdentity: boolean, age: Age): Missing[] {
  const { data } = usePluginFacts()
  return useMemo(() => {
    if (schema === undefined || layer === undefined || text.length > MEASURED_MAX) return []
    return missingIn(schema, layer, JSON.parse(text || '{}'), (name) => (isIdentity ? data?.[name]?.consumer_schema : undefined) ?? data?.[name]?.schema, age)
  }, [schema, layer, text, isIdentity, age, data])
}

/** Words of the gateway about combinations of fields, which the form says better where it knows which is missing. */
const COMBINATION = /^(allOf|anyOf|oneOf|value should match|object matches|then clause|else clause|failed to validate dependent|property ".*" is required)/

/** What is wrong: what is missing in the form's words, and in the gateway's what else there is. */
function useAllProblems(problems: Problem[], missing: Missing[]): Problem[] {
  const say = useSay()
  return useMemo(() => {
    const places = missing.map(({ path }) => pointerOf(path))
    const own = missing.map(({ path, title }) => ({ pointer: pointerOf(path), text: say(TEXTS.required), title: say(title) }))
    const others = problems.filter(({ pointer, text }) => !places.some((at) => at === pointer || (COMBINATION.test(text) && at.startsWith(`${pointer}/`))))
    return [...own, ...others]
  }, [problems, missing, say])
}

/** After an attempt the focus goes to the first field that is wrong. */
function useFirstFault(attempts: number) {
  const frame = useRef<HTMLDivElement>(null)
  useEffect(() => {
    if (attempts === 0) return
    const first = frame.current?.querySelector<HTMLElement>('[aria-invalid=true]:not(.text-view textarea), .field-error')
    if (first?.matches('.field-error')) first.scrollIntoView({ block: 'center' })
    else first?.focus()
  }, [attempts])
  return frame
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

interface FormViewProps { schema: Schema | undefined; layer: Layer | undefined; text: string; isStale: boolean; provider: Omit<React.ComponentProps<typeof FormProvider>, 'text' | 'children'> }

function FormView({ schema, layer, text, isStale, provider }: FormViewProps) {
  const words = useWords()
  if (schema === undefined) return null
  const value: unknown = JSON.parse(text || '{}')
  const plan = planOf(schema, value)
  if (plan.kind !== 'object') return null
  return (
    <Stack gap="xs" className="form">
      {isStale && <Text size="sm" c="orange" role="status">{words.formStale}</Text>}
      <fieldset disabled={isStale} className={isStale ? 'bare stale' : 'bare'}>
        <FormProvider text={text} {...provider}>
          <DocumentFields path={[]} plan={plan} value={value} layer={layer} />
        </FormProvider>
      </fieldset>
    </Stack>
  )
}

/** The word that a hint names. */
const meantBy = (hint: string | undefined) => /^did you mean "([^"]+)"\?$/.exec(hint ?? '')?.[1]

/** The document with the word that was meant: as the name of a field or plugin, or as a value. */
export function fixed(text: string, { pointer, text: reason }: Problem, meant: string): string {
  const path = pathAt(pointer)
  return /^(additional properties|unknown plugin)/.test(reason) ? renameAt(text, path, meant) : setAt(text, path, JSON.stringify(meant))
}

/** All that the gateway would refuse, whether its field is in sight or not; what is misspelt is put right by a button. */
function Problems({ problems, fix }: { problems: Problem[]; fix: (problem: Problem, meant: string) => void }) {
  const words = useWords()
  const say = useSay()
  return (
    <Alert color="red" variant="light" role="alert" title={words.faults(problems.length)}>
      <List size="sm">
        {problems.map((problem, at) => (
          <List.Item key={at} lang={problem.title === undefined ? 'en' : undefined}>{problem.title ?? <span className="mono">{problem.pointer || words.wholeObject}</span>}: {problem.text}{problem.hint && <strong> {problem.hint}</strong>}{meantBy(problem.hint) !== undefined && <Button ml={8} size="compact-xs" variant="default" onClick={() => fix(problem, meantBy(problem.hint) as string)}>{say(TEXTS.use)} {meantBy(problem.hint)}</Button>}</List.Item>
        ))}
      </List>
    </Alert>
  )
}
