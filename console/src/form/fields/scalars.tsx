/** Texts, numbers, switches, choices and flags. What is empty and what is not there differ. */
import { Button, Group, NativeSelect, TextInput, Textarea } from '@mantine/core'
import { type ClipboardEvent, type ReactNode, useId, useState } from 'react'
import { useWords } from '../../words/words'
import { useFault, useForm, useText } from '../context'
import { FieldKey, type FieldProps, Help, RemoveButton } from '../field'
import { TEXTS, useSay } from '../texts'
import { inWords, unitOf } from '../titles'

/** What all fields of one line have in common: title, purpose, the server's words, a button that takes it away. */
function useCommon({ path, label, schema, look, value, canRemove, isBare }: FieldProps) {
  const fault = useFault(path)
  const isThere = value !== undefined
  return {
    ...(isBare ? { 'aria-label': label } : { label }),
    description: isBare ? undefined : <Help schema={schema} look={look} />,
    error: fault,
    placeholder: isThere && value !== '' ? undefined : look?.placeholder ?? (schema.default !== undefined && typeof schema.default !== 'object' ? String(schema.default) : undefined),
    ...(canRemove && isThere ? { rightSection: <RemoveButton path={path} label={label} />, rightSectionPointerEvents: 'all' as const } : {}),
  }
}

/** The frame of a field: its name in the document beside the title, and a mark where it is required. */
export function Frame({ path, isRequired, isBare, children }: Pick<FieldProps, 'path' | 'isRequired' | 'isBare'> & { children: ReactNode }) {
  return <div className={isRequired ? 'field required' : 'field'}>{!isBare && <FieldKey path={path} />}{children}</div>
}

const asText = (value: unknown) => (typeof value === 'string' ? value : value === undefined ? '' : JSON.stringify(value))

export function TextField({ isLong, ...props }: FieldProps & { isLong: boolean }) {
  const { set, sealed } = useForm()
  const common = useCommon(props)
  const change = (text: string) => set(props.path, JSON.stringify(text))
  const value = asText(props.value)
  if (sealed.has(value)) return <Sealed {...props} />
  return (
    <Frame {...props}>
      {isLong || value.includes('\n')
        ? <Textarea {...common} className={props.isSecret ? 'secret' : undefined} value={value} autosize minRows={2} maxRows={12} spellCheck={false} onChange={(event) => change(event.currentTarget.value)} />
        : <TextInput {...common} value={value} spellCheck={false} autoComplete="off" type={props.isSecret ? 'password' : 'text'} onChange={(event) => change(event.currentTarget.value)} onPaste={(event) => pasteLines(event, change)} />}
    </Frame>
  )
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
export function Sealed(props: FieldProps) {
  const words = useWords()
  const { set } = useForm()
  const { rightSection: _, rightSectionPointerEvents: __, ...common } = useCommon(props)
  return (
    <Frame {...props}>
      <Group gap="xs" align="end" wrap="nowrap">
        <TextInput {...common} className="grow" value={words.secretSet} readOnly />
        <Button variant="default" aria-label={words.replaceSecret(props.label)} onClick={() => set(props.path, '""')}>{words.replace}</Button>
        {props.canRemove && <RemoveButton path={props.path} label={props.label} />}
      </Group>
    </Frame>
  )
}

/** JSON's own numbers; what else is typed stays in the field until it is one. */
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/

export function NumberField({ takesText, ...props }: FieldProps & { takesText: boolean }) {
  const words = useWords()
  const say = useSay()
  const { set, remove } = useForm()
  const written = useText(props.path)
  const [draft, setDraft] = useState<string>()
  const { rightSection, rightSectionPointerEvents: _, ...common } = useCommon(props)
  const isText = typeof props.value === 'string'
  // Texts that look like numbers keep their quotes, or a look at them would change them.
  const isQuotedNumber = takesText && isText && NUMBER.test(props.value as string)
  const change = (text: string) => {
    // What is emptied is unset, and counts as what the default is.
    if (text === '' && props.canRemove) {
      setDraft(undefined)
      return remove(props.path)
    }
    const isNumber = NUMBER.test(text)
    setDraft(isNumber || takesText ? undefined : text)
    if (isNumber && !isQuotedNumber) set(props.path, text)
    else if (takesText) set(props.path, JSON.stringify(text))
  }
  const value = draft ?? (isText ? (props.value as string) : props.value === undefined ? '' : (written ?? ''))
  const last = props.path.at(-1)
  const unit = unitOf(typeof last === 'string' ? last : '', props.schema, props.look)
  const larger = inWords(props.value ?? props.schema.default, unit)
  return (
    <Frame {...props}>
      <TextInput
        {...common} className={takesText && unit === undefined ? undefined : 'number'} value={value} inputMode={takesText ? 'text' : 'decimal'} autoComplete="off"
        error={draft === undefined ? common.error : words.notANumber}
        onChange={(event) => change(event.currentTarget.value)} onBlur={() => setDraft(undefined)}
        {...(unit ? { rightSection: <span className="unit" aria-hidden>{say(TEXTS[unit])}</span>, rightSectionWidth: 54 } : rightSection ? { rightSection, rightSectionPointerEvents: 'all' as const } : {})}
        {...(unit ? { inputContainer: (input: ReactNode) => <div className="with-unit">{input}{rightSection}{larger && <span className="larger">{larger}</span>}</div> } : {})}
      />
    </Frame>
  )
}

/** A switch shows what counts: what is written, or else the default. */
function Flip({ isOn, isWritten, flip, props }: { isOn: boolean; isWritten: boolean; flip: () => void; props: FieldProps }) {
  const { path, label, schema, look, canRemove, isBare } = props
  const fault = useFault(path)
  const id = useId()
  return (
    <div className="field">
      {!isBare && <FieldKey path={path} />}
      <div className="flip">
        <input id={id} type="checkbox" role="switch" className="switch" checked={isOn} onChange={flip} aria-label={isBare ? label : undefined} aria-invalid={fault ? true : undefined} />
        {!isBare && <label htmlFor={id}>{label}</label>}
        {canRemove && isWritten && <RemoveButton path={path} label={label} />}
      </div>
      {!isBare && <p className="flip-help"><Help schema={schema} look={look} /></p>}
      {fault && <p className="field-error">{fault}</p>}
    </div>
  )
}

export function Switch(props: FieldProps) {
  const { set } = useForm()
  const isOn = props.value === undefined ? props.schema.default === true : props.value === true
  return <Flip isOn={isOn} isWritten={props.value !== undefined} flip={() => set(props.path, String(!isOn))} props={props} />
}

/** 1 and 0 as a switch. */
export function OnOff(props: FieldProps) {
  const { set } = useForm()
  const isOn = (props.value ?? props.schema.default) === 1
  return <Flip isOn={isOn} isWritten={props.value !== undefined} flip={() => set(props.path, isOn ? '0' : '1')} props={props} />
}

/** One of several values by their titles. `isOpen`: others may be typed. */
export function Choice({ choices, isOpen = false, ...props }: FieldProps & { choices: unknown[]; isOpen?: boolean }) {
  const say = useSay()
  const { set, remove } = useForm()
  const [isTyped, typed] = useState(false)
  const { rightSection, rightSectionPointerEvents: __, placeholder: ___, ...common } = useCommon(props)
  const titled = (value: unknown) => {
    const title = props.look?.choices?.[String(value)]
    return title ? say(title) : asText(value)
  }
  const texts = choices.map((choice) => JSON.stringify(choice))
  const current = props.value === undefined ? '' : JSON.stringify(props.value)
  const isOther = isOpen && (isTyped || (current !== '' && !texts.includes(current)))
  const { default: common_default } = props.schema
  const absent = common_default === undefined ? (props.isRequired ? '' : say(TEXTS.notSet)) : `${titled(common_default)} (${say(TEXTS.byDefault)})`
  const shown = texts.map((text, at) => ({ value: text, label: titled(choices[at]) })).filter(({ value }) => value === current || value !== JSON.stringify(common_default))
  const data = [
    ...(props.isRequired && current !== '' ? [] : [{ value: '', label: absent }]),
    ...shown,
    ...(current !== '' && !texts.includes(current) && !isOpen ? [{ value: current, label: asText(props.value) }] : []),
    ...(isOpen ? [{ value: 'other', label: say(TEXTS.other) }] : []),
  ]
  const pick = (value: string) => {
    typed(value === 'other')
    if (value === '') remove(props.path)
    else if (value !== 'other') set(props.path, value)
  }
  return (
    <Frame {...props}>
      <NativeSelect {...common} error={isOther ? undefined : common.error} data={data} value={isOther ? 'other' : current} className="choice" onChange={(event) => pick(event.currentTarget.value)} />
      {isOther && <TextInput mt={6} aria-label={`${props.label}: ${say(TEXTS.other)}`} value={asText(props.value)} error={common.error} placeholder={props.look?.placeholder} autoComplete="off" spellCheck={false} onChange={(event) => set(props.path, JSON.stringify(event.currentTarget.value))} rightSection={rightSection} rightSectionPointerEvents="all" />}
    </Frame>
  )
}

/** Some of a list of names, each at most once; the order in which they were chosen stays. */
export function Flags({ choices, ...props }: FieldProps & { choices: unknown[] }) {
  const { set, remove } = useForm()
  const fault = useFault(props.path)
  const id = useId()
  const chosen = Array.isArray(props.value) ? (props.value as unknown[]) : []
  const flip = (choice: unknown) => {
    const at = chosen.indexOf(choice)
    // The last one that is taken out takes the list along: none chosen and no list mean the same.
    if (at >= 0 && chosen.length === 1 && props.canRemove) remove(props.path)
    else if (at >= 0) remove([...props.path, at])
    else if (props.value === undefined) set(props.path, JSON.stringify([choice]))
    else set([...props.path, chosen.length], JSON.stringify(choice))
  }
  return (
    <div className="field group" role="group" aria-labelledby={id}>
      <div className="group-title"><span id={id}>{props.label}</span></div>
      <FieldKey path={props.path} />
      <p className="flip-help"><Help schema={props.schema} look={props.look} /></p>
      <div className="pills">
        {choices.map((choice) => (
          <label key={String(choice)} className="pill"><input type="checkbox" checked={chosen.includes(choice)} onChange={() => flip(choice)} /><span>{String(choice)}</span></label>
        ))}
      </div>
      {fault && <p className="field-error">{fault}</p>}
    </div>
  )
}
