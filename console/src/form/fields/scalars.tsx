/** Texts, numbers, switches, choices and flags. What is empty and what is not there differ. */
import { Button, Checkbox, Group, Input, NativeSelect, Textarea, TextInput } from '@mantine/core'
import { type ClipboardEvent, useState } from 'react'
import { useWords } from '../../words/words'
import { useFault, useForm, useText } from '../context'
import { type FieldProps, RemoveButton } from '../field'

/** What all fields of one line have in common: name, purpose, the server's words, a button that takes it away. */
function useCommon({ path, label, schema, value, isRequired, canRemove, isBare }: FieldProps) {
  const fault = useFault(path)
  const isThere = value !== undefined
  return {
    label: isBare ? undefined : <span className="mono">{label}</span>,
    'aria-label': label,
    description: schema.description && <span lang="en">{schema.description}</span>,
    error: fault,
    withAsterisk: isRequired,
    placeholder: !isThere && schema.default !== undefined ? String(schema.default) : undefined,
    ...(canRemove && isThere ? { rightSection: <RemoveButton path={path} label={label} />, rightSectionPointerEvents: 'all' as const } : {}),
  }
}

const asText = (value: unknown) => (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value))

export function TextField({ isLong, ...props }: FieldProps & { isLong: boolean }) {
  const { set, sealed } = useForm()
  const common = useCommon(props)
  const change = (text: string) => set(props.path, JSON.stringify(text))
  const value = asText(props.value)
  if (sealed.has(value)) return <Sealed {...props} />
  if (isLong || value.includes('\n')) {
    return <Textarea {...common} className={props.isSecret ? 'secret' : undefined} value={value} autosize minRows={2} maxRows={12} spellCheck={false} onChange={(event) => change(event.currentTarget.value)} />
  }
  return <TextInput {...common} value={value} spellCheck={false} autoComplete="off" type={props.isSecret ? 'password' : 'text'} onChange={(event) => change(event.currentTarget.value)} onPaste={(event) => pasteLines(event, change)} />
}

/** What is pasted in several lines keeps them, which a field of one would join: keys and certificates are of many. */
function pasteLines(event: ClipboardEvent<HTMLInputElement>, change: (text: string) => void) {
  const pasted = event.clipboardData.getData('text')
  if (!pasted.trim().includes('\n')) return
  event.preventDefault()
  const { value, selectionStart, selectionEnd } = event.currentTarget
  change(value.slice(0, selectionStart ?? value.length) + pasted + value.slice(selectionEnd ?? value.length))
}

/** A secret that is set: nobody reads it, and an edit of it would be one of its seal. */
function Sealed(props: FieldProps) {
  const words = useWords()
  const { set } = useForm()
  const { rightSection: _, rightSectionPointerEvents: __, ...common } = useCommon(props)
  return (
    <Group gap="xs" align="end" wrap="nowrap">
      <TextInput {...common} className="grow" value={words.secretSet} readOnly />
      <Button variant="default" aria-label={words.replaceSecret(props.label)} onClick={() => set(props.path, '""')}>{words.replace}</Button>
      {props.canRemove && <RemoveButton path={props.path} label={props.label} />}
    </Group>
  )
}

/** JSON's own numbers; what else is typed stays in the field until it is one. */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

export function NumberField({ takesText, ...props }: FieldProps & { takesText: boolean }) {
  const words = useWords()
  const { set } = useForm()
  const written = useText(props.path)
  const [draft, setDraft] = useState<string>()
  const common = useCommon(props)
  const isText = typeof props.value === 'string'
  // Texts that look like numbers keep their quotes, or a look at them would change them.
  const isQuotedNumber = takesText && isText && NUMBER.test(props.value as string)
  const change = (text: string) => {
    const isNumber = NUMBER.test(text)
    setDraft(isNumber || takesText ? undefined : text)
    if (isNumber && !isQuotedNumber) set(props.path, text)
    else if (takesText) set(props.path, JSON.stringify(text))
  }
  const value = draft ?? (isText ? (props.value as string) : (written ?? ''))
  return (
    <TextInput
      {...common} value={value} inputMode={takesText ? 'text' : 'decimal'} autoComplete="off"
      error={draft === undefined ? common.error : words.notANumber}
      onChange={(event) => change(event.currentTarget.value)} onBlur={() => setDraft(undefined)}
    />
  )
}

/** Three states: absent, and then the gateway's default counts; yes; no. */
export function Switch(props: FieldProps) {
  return <Choice {...props} choices={[true, false]} />
}

export function Choice({ choices, ...props }: FieldProps & { choices: unknown[] }) {
  const words = useWords()
  const { set, remove } = useForm()
  const { rightSection: _, rightSectionPointerEvents: __, placeholder: ___, ...common } = useCommon(props)
  const texts = choices.map((choice) => JSON.stringify(choice))
  const current = props.value === undefined ? '' : JSON.stringify(props.value)
  const absent = props.schema.default === undefined ? words.notSet : words.defaultIs(asText(props.schema.default))
  const data = [
    { value: '', label: absent },
    ...texts.map((text, at) => ({ value: text, label: asText(choices[at]) })),
    ...(current !== '' && !texts.includes(current) ? [{ value: current, label: asText(props.value) }] : []),
  ]
  return (
    <NativeSelect
      {...common} data={data} value={current} maw={420}
      onChange={(event) => (event.currentTarget.value === '' ? remove(props.path) : set(props.path, event.currentTarget.value))}
    />
  )
}

/** Some of a list of names, each at most once; the order in which they were chosen stays. */
export function Flags({ choices, ...props }: FieldProps & { choices: unknown[] }) {
  const { set, remove } = useForm()
  const { label, description, error } = useCommon(props)
  const chosen = Array.isArray(props.value) ? (props.value as unknown[]) : []
  const flip = (choice: unknown) => {
    const at = chosen.indexOf(choice)
    if (at >= 0) remove([...props.path, at])
    else if (props.value === undefined) set(props.path, JSON.stringify([choice]))
    else set([...props.path, chosen.length], JSON.stringify(choice))
  }
  return (
    <Input.Wrapper label={label} description={description} error={error} labelElement="div">
      <Group gap="md" mt={4} role="group" aria-label={props.label}>
        {choices.map((choice) => (
          <Checkbox key={String(choice)} size="xs" label={String(choice)} checked={chosen.includes(choice)} onChange={() => flip(choice)} />
        ))}
        {props.canRemove && props.value !== undefined && <RemoveButton path={props.path} label={props.label} />}
      </Group>
    </Input.Wrapper>
  )
}
