/** Comparisons of governance rules as sentences: conditions on calls, labels of instances, and a value alone. */
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { useState } from 'react'
import { type Path, renameAt, setAt } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useFault, useForm } from '../context'
import { RemoveButton } from '../field'
import { NAMED_SUBJECTS } from '../layers/rules/shared'
import type { Text } from '../layers/layer'
import { isRecord, type Schema } from '../plan'
import { TEXTS, useSay } from '../texts'
import { Raw } from './raw'

/** How a value is compared, by the protocol's names; the first is the default. */
export const COMPARISONS: Record<string, Text> = {
  EXACT: ['equals', '等于'], NOT_EQUALS: ['does not equal', '不等于'], IN: ['is one of', '属于'], NOT_IN: ['is none of', '不属于'], REGEX: ['matches the pattern', '匹配正则'], RANGE: ['is in the range', '在范围内'],
}

export const VALUE_KINDS: Record<string, Text> = { TEXT: ['the text', '文本'], PARAMETER: ["the call's", '调用参数'], VARIABLE: ["the caller's variable", '主调变量'] }

/** What a condition looks at. */
export const SUBJECTS: Record<string, Text> = {
  HEADER: ['Header', '请求头'], QUERY: ['Query parameter', '查询参数'], COOKIE: ['Cookie', 'Cookie'], METHOD: ['Method', '方法'], PATH: ['Path', '路径'], CALLER_IP: ["Caller's address", '主调 IP'], CALLER_SERVICE: ['Calling service', '主调服务'],
  CALLER_METADATA: ["Caller's label", '主调标签'], CALLEE_METADATA: ["Called instance's label", '被调标签'], CUSTOM: ['Label of the call', '自定义标签'],
}

/** Names that the protocol gives to what has none of its own. */
const FIXED: Record<string, string> = { METHOD: '$method', CALLER_IP: '$caller_ip', PATH: '$path' }

/** Shown in an empty value; a list has commas and a range a tilde. */
const PLACEHOLDERS: Record<string, string> = { IN: 'a,b', NOT_IN: 'a,b', RANGE: '500~599', REGEX: '2\\..*' }

const NEW_VALUE = '{"type":"EXACT","value":""}'

interface ComparisonProps { path: Path; value: unknown; part: (what: string) => string; placeholder?: string; isOff?: boolean }

/** How, and with what: the kind of the value only where it is no plain text, or was asked for. */
function Comparison({ path, value, part, placeholder, isOff = false }: ComparisonProps) {
  const words = useWords()
  const say = useSay()
  const { set, change } = useForm()
  const [isAsked, ask] = useState(false)
  const fields = isRecord(value) ? value : {}
  const type = String(fields.type ?? 'EXACT')
  const kind = String(fields.value_type ?? 'TEXT')
  const fault = useFault([...path, 'value'])
  const whole = useFault(path)
  // What is begun has its comparison too, so that the text says the same as the form.
  const put = (name: string, json: string) => (isRecord(value) ? set([...path, name], json) : change((text) => setAt(setAt(text, path, NEW_VALUE), [...path, name], json), path))
  return (
    <>
      <NativeSelect aria-label={part(words.operator)} disabled={isOff} value={type} data={optionsOf(COMPARISONS, type, say)} onChange={(event) => put('type', JSON.stringify(event.currentTarget.value))} />
      {(isAsked || kind !== 'TEXT') && <NativeSelect aria-label={part(say(TEXTS.valueKind))} value={kind} data={optionsOf(VALUE_KINDS, kind, say)} onChange={(event) => put('value_type', JSON.stringify(event.currentTarget.value))} />}
      <TextInput
        className="condition-value" aria-label={part(words.value)} disabled={isOff} placeholder={PLACEHOLDERS[type] ?? placeholder} autoComplete="off" spellCheck={false} error={fault ?? whole}
        value={fields.value === undefined || fields.value === null ? '' : String(fields.value)} onChange={(event) => put('value', JSON.stringify(event.currentTarget.value))}
      />
      {!isAsked && kind === 'TEXT' && !isOff && <Button size="compact-xs" variant="subtle" color="gray" aria-label={part(say(TEXTS.compareOther))} title={say(TEXTS.compareOther)} onClick={() => ask(true)}>⋯</Button>}
    </>
  )
}

const optionsOf = (known: Record<string, Text>, current: string, say: (text: Text) => string, names = Object.keys(known)) =>
  [...names, ...(names.includes(current) ? [] : [current])].map((value) => ({ value, label: known[value] ? say(known[value]) : value }))

/** A value and how it is compared, by itself. */
export function ComparisonField({ path, value, label }: { path: Path; value: unknown; label: string }) {
  return <div className="condition"><Comparison path={path} value={value} part={(what) => `${label}: ${what}`} placeholder="/orders" /></div>
}

/** Conditions on a call, which all have to hold. */
export function CallConditions({ path, item, value }: { path: Path; item: Schema; value: unknown }) {
  const say = useSay()
  const { set } = useForm()
  const rows = Array.isArray(value) ? (value as unknown[]) : []
  const subjects = (item.properties?.type?.enum ?? []).map(String)
  const first = subjects.includes('HEADER') ? 'HEADER' : (subjects[0] ?? 'CUSTOM')
  const add = () => {
    const begun = `{"type":${JSON.stringify(first)},"key":"","value":${NEW_VALUE}}`
    if (value === undefined) set(path, `[${begun}]`)
    else set([...path, rows.length], begun)
  }
  return (
    <div className="conditions">
      {drawn(rows).map((row, at) => (isRecord(row)
        ? <CallCondition key={at} path={[...path, at]} row={row} at={at + 1} subjects={subjects} word={say(at === 0 ? TEXTS.when : TEXTS.and)} />
        : <Raw key={at} path={[...path, at]} schema={{}} value={row} label={String(at + 1)} canRemove />))}
      <More rows={rows} />
      <Button size="xs" variant="default" className="start" onClick={add}>+ {say(TEXTS.addCondition)}</Button>
    </div>
  )
}

function CallCondition({ path, row, at, subjects, word }: { path: Path; row: Record<string, unknown>; at: number; subjects: string[]; word: string }) {
  const words = useWords()
  const say = useSay()
  const { set, change } = useForm()
  const fault = useFault([...path, 'key'])
  const type = String(row.type ?? 'CUSTOM')
  const key = String(row.key ?? '')
  const part = (what: string) => words.conditionPart(at, what)
  const isNamed = NAMED_SUBJECTS.includes(type) || (key !== '' && key !== FIXED[type])
  const pick = (next: string) => {
    // A name that was chosen by hand stays.
    const isOwn = key !== '' && !Object.values(FIXED).includes(key)
    change((text) => setAt(setAt(text, [...path, 'type'], JSON.stringify(next)), [...path, 'key'], JSON.stringify(FIXED[next] ?? (isOwn ? key : ''))), path)
  }
  const ordered = Object.keys(SUBJECTS).filter((name) => subjects.includes(name))
  return (
    <div className="condition" role="group" aria-label={`${words.condition} ${at}`}>
      <span className="condition-word" aria-hidden>{word}</span>
      <NativeSelect aria-label={part(words.kind)} value={type} data={optionsOf(SUBJECTS, type, say, ordered)} onChange={(event) => pick(event.currentTarget.value)} />
      {isNamed && <TextInput aria-label={part(type === 'CALLER_SERVICE' ? words.namespace : words.name)} placeholder={type === 'CALLER_SERVICE' ? 'default' : 'x-version'} error={fault} autoComplete="off" spellCheck={false} value={key} onChange={(event) => set([...path, 'key'], JSON.stringify(event.currentTarget.value))} />}
      <Comparison path={[...path, 'value']} value={row.value} part={part} />
      <RemoveButton path={path} label={`${words.condition} ${at}`} />
    </div>
  )
}

/** Labels by name, each with the value that it is compared with. */
export function LabelConditions({ path, value, label }: { path: Path; value: unknown; label: string }) {
  const say = useSay()
  const [isAdding, adding] = useState(false)
  const labels = isRecord(value) ? value : {}
  const names = Object.keys(labels)
  const rows: (string | undefined)[] = isAdding ? [...names, undefined] : names
  return (
    <div className="conditions">
      {rows.map((name, at) => <Label key={at} path={path} name={name} value={name === undefined ? undefined : labels[name]} title={`${label} ${at + 1}`} isTaken={(next) => next in labels} end={() => adding(false)} />)}
      {!isAdding && <Button size="xs" variant="default" className="start" onClick={() => adding(true)}>+ {say(TEXTS.addLabel)}</Button>}
    </div>
  )
}

interface LabelProps { path: Path; name: string | undefined; value: unknown; title: string; isTaken: (name: string) => boolean; end: () => void }

/** A label; it comes into the document, or changes its name, when its name is left: half of one may be another's. */
function Label({ path, name, value, title, isTaken, end }: LabelProps) {
  const words = useWords()
  const say = useSay()
  const { set, change } = useForm()
  const [draft, setDraft] = useState<string>()
  const shown = draft ?? name ?? ''
  const part = (what: string) => `${title}: ${what}`
  const leave = () => {
    setDraft(undefined)
    if (shown === (name ?? '') || shown === '' || isTaken(shown)) return name === undefined && end()
    if (name !== undefined) return change((text) => renameAt(text, [...path, name], shown), path)
    set([...path, shown], NEW_VALUE)
    end()
  }
  return (
    <div className="condition" role="group" aria-label={title}>
      <TextInput aria-label={part(words.name)} placeholder="version" autoFocus={name === undefined} autoComplete="off" spellCheck={false} value={shown} error={draft !== undefined && draft !== name && isTaken(draft) ? say(TEXTS.nameTaken) : undefined} onChange={(event) => setDraft(event.currentTarget.value)} onBlur={leave} onKeyDown={(event) => event.key === 'Enter' && leave()} />
      <Comparison path={[...path, shown]} value={value} part={part} placeholder="2" isOff={name === undefined && shown === ''} />
      {name === undefined ? <Button size="compact-xs" variant="subtle" color="gray" aria-label={words.removeField(title)} onClick={end}>✕</Button> : <RemoveButton path={[...path, name]} label={title} />}
    </div>
  )
}
