import { Alert, Button, Group, List, SegmentedControl, Stack, Text, Textarea } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useState } from 'react'
import type { Kind } from '../../api/types'
import { FormProvider, type Problem } from '../../form/context'
import type { useDocument } from '../../form/document'
import { ObjectFields } from '../../form/fields/object'
import { planOf } from '../../form/plan'
import { fault } from '../../lib/json-text'
import type { EditorView } from '../../routes'
import { ErrorBox, Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { useSchema, useVerdict } from './schemas'

/** After the last edit the gateway is asked what it thinks, in milliseconds. */
const REST_MS = 400

interface Props {
  kind: Kind
  id: string | undefined
  document: ReturnType<typeof useDocument>
  view: EditorView
  choose: (view: EditorView) => void
  /** Whether the text differs from what was opened; what was not touched is not judged. */
  isChanged: boolean
}

/** The two views of a document, and what the gateway says about it. */
export function Views({ kind, id, document, view, choose, isChanged }: Props) {
  const words = useWords()
  const { text } = document
  const broken = fault(text)
  const [readable, setReadable] = useState(text)
  if (broken === undefined && readable !== text) setReadable(text)
  const [rested] = useDebouncedValue(readable, REST_MS)
  const verdict = useVerdict(kind, id, rested, isChanged && broken === undefined)
  const problems = isChanged ? (verdict.data?.problems ?? []) : []
  const views = [{ value: 'form', label: words.form }, { value: 'both', label: words.both }, { value: 'json', label: words.json }]
  return (
    <Stack>
      <Group justify="space-between">
        <SegmentedControl size="xs" aria-label={words.view} data={views} value={view} onChange={(next) => choose(next as EditorView)} />
        <Group gap="xs">
          {isChanged && verdict.data?.valid && broken === undefined && <Text size="sm" c="dimmed" role="status">{words.valid}</Text>}
          <Button size="xs" variant="default" disabled={!document.canUndo} onClick={document.undo}>{words.undo}</Button>
          <Button size="xs" variant="default" disabled={!document.canRedo} onClick={document.redo}>{words.redo}</Button>
        </Group>
      </Group>
      {problems.length > 0 && <Problems problems={problems} />}
      <div className={`views ${view}`} onKeyDown={(event) => stepByKey(event, document)}>
        {view !== 'json' && <FormView kind={kind} text={readable} problems={problems} edit={document.edit} isStale={broken !== undefined} />}
        {view !== 'form' && (
          <Textarea
            className="editor text-view" aria-label={words.json} spellCheck={false} autosize minRows={16} maxRows={36}
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

function FormView({ kind, text, problems, edit, isStale }: { kind: Kind; text: string; problems: Problem[]; edit: Props['document']['edit']; isStale: boolean }) {
  const words = useWords()
  const schema = useSchema(kind)
  if (schema.isError) return <ErrorBox error={schema.error} retry={() => void schema.refetch()} />
  if (schema.data === undefined) return <Loading />
  const value: unknown = JSON.parse(text || '{}')
  const plan = planOf(schema.data, value)
  if (plan.kind !== 'object') return null
  return (
    <Stack gap="xs">
      {isStale && <Text size="sm" c="orange" role="status">{words.formStale}</Text>}
      <fieldset disabled={isStale} className={isStale ? 'bare stale' : 'bare'}>
        <FormProvider text={text} problems={problems} isIdentity={kind === 'consumers'} edit={edit}>
          <ObjectFields path={[]} plan={plan} value={value} />
        </FormProvider>
      </fieldset>
    </Stack>
  )
}

/** All that the gateway would refuse, whether its field is in sight or not. */
export function Problems({ problems }: { problems: Problem[] }) {
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
