/** JSON text for what has no field of its own. */
import { Textarea } from '@mantine/core'
import { useState } from 'react'
import { fault, pretty } from '../../lib/json-text'
import { useWords } from '../../words/words'
import { useFaultBelow, useForm, useText } from '../context'
import { type FieldProps, Help, RemoveButton } from '../field'
import { Frame } from './scalars'

/** Any JSON as text: for what no field is made for. What cannot be read yet stays in the field and not in the document. */
export function Raw({ path, label, schema, look, value, isRequired, canRemove, isBare }: FieldProps) {
  const words = useWords()
  const { set } = useForm()
  const written = useText(path)
  const error = useFaultBelow(path)
  const [draft, setDraft] = useState<string>()
  const broken = draft === undefined ? undefined : fault(draft)
  const change = (text: string) => {
    setDraft(text)
    if (fault(text) === undefined) set(path, text)
  }
  const text = draft ?? (written === undefined ? '' : pretty(written))
  return (
    <Frame path={path} isRequired={isRequired} isBare={isBare}>
      <Textarea
        data-raw className="editor" label={isBare ? undefined : label} aria-label={isBare ? label : undefined}
        description={<Help schema={schema} look={look} />}
        value={text} autosize minRows={1} maxRows={14} spellCheck={false} placeholder={words.json}
        error={broken ? words.brokenJson(broken.line, broken.reason) : error}
        onChange={(event) => change(event.currentTarget.value)} onBlur={() => broken === undefined && setDraft(undefined)}
        {...(canRemove && value !== undefined ? { rightSection: <RemoveButton path={path} label={label} />, rightSectionPointerEvents: 'all' as const } : {})}
      />
    </Frame>
  )
}
