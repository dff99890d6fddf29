/** A time in seconds that is written as `30s`. */
import { TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWords } from '../../words/words'
import { useFault, useForm } from '../context'
import { type FieldProps, Help } from '../field'
import { TEXTS, useSay } from '../texts'
import { inWords } from '../titles'
import { Frame } from './scalars'

const SECONDS = /^(\d+(?:\.\d+)?)s$/

/** Whether the field can show a value: others stay text. */
export const isDuration = (value: unknown) => value === undefined || value === '' || (typeof value === 'string' && SECONDS.test(value))

export function Duration({ path, label, schema, look, value, isRequired, canRemove, isBare }: FieldProps) {
  const words = useWords()
  const say = useSay()
  const { set, remove } = useForm()
  const fault = useFault(path)
  const [draft, setDraft] = useState<string>()
  const seconds = SECONDS.exec(String(value ?? ''))?.[1] ?? ''
  const change = (typed: string) => {
    const isNumber = /^\d+(\.\d+)?$/.test(typed)
    setDraft(isNumber || typed === '' ? undefined : typed)
    if (isNumber) set(path, JSON.stringify(`${typed}s`))
    if (typed === '' && canRemove) remove(path)
    else if (typed === '') set(path, '""')
  }
  const larger = inWords(Number(seconds || Number.NaN), 'seconds')
  return (
    <Frame path={path} isRequired={isRequired} isBare={isBare}>
      <TextInput
        className="number" {...(isBare ? { 'aria-label': label } : { label })} description={isBare ? undefined : <Help schema={schema} look={look} />} placeholder={look?.placeholder} inputMode="decimal" autoComplete="off"
        value={draft ?? seconds} error={draft === undefined ? fault : words.notANumber} onChange={(event) => change(event.currentTarget.value)} onBlur={() => setDraft(undefined)}
        rightSection={<span className="unit" aria-hidden>{say(TEXTS.seconds)}</span>} rightSectionWidth={54}
        inputContainer={(input) => <div className="with-unit">{input}{larger && <span className="larger">{larger}</span>}</div>}
      />
    </Frame>
  )
}
