/** Conditions as sentences: what is looked at, how it is compared, with what. Nested ones stay text. */
import { Button, NativeSelect, TextInput } from '@mantine/core'
import { useId } from 'react'
import { type Path, setAt } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { RemoveButton } from '../field'
import type { Text } from '../layers/layer'
import { TEXTS, useSay } from '../texts'

/** Operators of expressions, as the gateway reads them, and how people say them. */
const OPERATORS: Record<string, Text> = {
  '==': ['equals', '等于'], '~=': ['does not equal', '不等于'], '>': ['is greater than', '大于'], '>=': ['is at least', '大于等于'], '<': ['is less than', '小于'], '<=': ['is at most', '小于等于'],
  '~~': ['matches the pattern', '匹配正则'], '~*': ['matches, ignoring case', '匹配正则（忽略大小写）'], in: ['is one of', '是其中之一'], has: ['contains', '包含'], ipmatch: ['is in the networks', '属于网段'],
}

/** Variables by what they are of: those with a name of their own begin so. */
const NAMED: Record<string, Text> = { arg_: ['Query parameter', '查询参数'], http_: ['Header', '请求头'], cookie_: ['Cookie', 'Cookie'] }
const PLAIN: Record<string, Text> = {
  uri: ['Path', '路径'], request_method: ['Method', '方法'], host: ['Host', '主机'], remote_addr: ['Client address', '客户端地址'], scheme: ['Scheme', '协议'], consumer_name: ['Consumer', '消费者'],
}

/** Operators behind which a list stands. */
const LISTS = new Set(['in', 'ipmatch'])

type Row = [string, ...unknown[]]

/** Conditions that all have to hold, or one of them. */
export function Conditions({ path, value }: { path: Path; value: unknown }) {
  const say = useSay()
  const name = useId()
  const { set, remove } = useForm()
  const all = (Array.isArray(value) ? value : []) as unknown[]
  const isOr = all[0] === 'OR'
  const first = typeof all[0] === 'string' ? 1 : 0
  const rows = all.slice(first) as Row[]
  const add = () => (value === undefined ? set(path, '[["","==",""]]') : set([...path, all.length], '["","==",""]'))
  const join = (or: boolean) => {
    if (or && !isOr) set(path, JSON.stringify(['OR', ...rows]))
    if (!or && first === 1) remove([...path, 0])
  }
  return (
    <div className="conditions">
      {rows.length === 0 && <p className="plugins-none">{say(TEXTS.everyRequest)}</p>}
      {rows.length > 1 && (
        <div className="pills" role="radiogroup" aria-label={say(TEXTS.when)}>
          {[false, true].map((or) => <label key={String(or)} className="pill"><input type="radio" name={name} checked={isOr === or} onChange={() => join(or)} /><span>{say(or ? TEXTS.oneHolds : TEXTS.allHold)}</span></label>)}
        </div>
      )}
      {drawn(rows).map((row, at) => <Condition key={at} path={[...path, at + first]} row={row} at={at + 1} word={at === 0 ? say(TEXTS.when) : say(isOr ? TEXTS.or : TEXTS.and)} />)}
      <More rows={rows} />
      <Button size="xs" variant="default" className="start" onClick={add}>+ {say(TEXTS.addCondition)}</Button>
    </div>
  )
}

/** One condition: it reads as a sentence. */
function Condition({ path, row, at, word }: { path: Path; row: Row; at: number; word: string }) {
  const words = useWords()
  const say = useSay()
  const { set, change } = useForm()
  const variable = row[0]
  const isNot = row.length === 4
  const operator = String(row.at(-2))
  const term = row.at(-1)
  const prefix = Object.keys(NAMED).find((start) => variable.startsWith(start))
  const kind = prefix ?? (variable in PLAIN ? variable : variable === '' ? 'arg_' : 'other')
  const rest = prefix ? variable.slice(prefix.length) : variable
  const part = (what: string) => words.conditionPart(at, what)
  const pick = (next: string) => {
    // What is called so keeps its name; a header is written in small letters with underscores.
    const named = prefix ? rest : ''
    set([...path, 0], JSON.stringify(next in PLAIN ? next : next === 'other' ? named : next + named))
  }
  const compare = (next: string) => {
    const [bare, not] = next.startsWith('!') ? [next.slice(1), true] : [next, false]
    const list = LISTS.has(bare) === Array.isArray(term) ? term : LISTS.has(bare) ? (term === '' ? [] : [term]) : Array.isArray(term) ? String(term[0] ?? '') : term
    change((text) => replaced(text, path, [variable, ...(not ? ['!'] : []), bare, list]), path)
  }
  const operators = Object.entries(OPERATORS).map(([value, text]) => ({ value, label: say(text) }))
  const current = isNot ? `!${operator}` : operator
  if (!operators.some((it) => it.value === current)) operators.push({ value: current, label: isNot ? `! ${operator}` : operator })
  const operatorOptions = [...operators, ...(['in', '~~', 'ipmatch', 'has'] as const).filter((it) => current !== `!${it}`).map((it) => ({ value: `!${it}`, label: `${say(TEXTS.not)} ${say(OPERATORS[it] as Text)}` }))]
  return (
    <div className="condition" role="group" aria-label={`${words.condition} ${at}`}>
      <span className="condition-word" aria-hidden>{word}</span>
      <NativeSelect aria-label={part(words.kind)} value={kind} data={[...Object.entries(NAMED), ...Object.entries(PLAIN)].map(([value, text]) => ({ value, label: say(text) })).concat([{ value: 'other', label: say(TEXTS.other) }])} onChange={(event) => pick(event.currentTarget.value)} />
      {!(kind in PLAIN) && <TextInput aria-label={part(words.variable)} placeholder={kind === 'http_' ? 'x_version' : 'version'} autoComplete="off" spellCheck={false} value={rest} onChange={(event) => set([...path, 0], JSON.stringify((prefix ?? (kind === 'arg_' ? 'arg_' : '')) + (kind === 'http_' ? event.currentTarget.value.replaceAll('-', '_').toLowerCase() : event.currentTarget.value)))} />}
      <NativeSelect aria-label={part(words.operator)} value={current} data={operatorOptions} onChange={(event) => compare(event.currentTarget.value)} />
      <TextInput
        className="condition-value" aria-label={part(words.value)} placeholder={LISTS.has(operator) ? say(TEXTS.values) : undefined} autoComplete="off" spellCheck={false}
        value={termShown(term)} onChange={(event) => set([...path, row.length - 1], termText(term, operator, event.currentTarget.value))}
      />
      <RemoveButton path={path} label={`${words.condition} ${at}`} />
    </div>
  )
}

const replaced = (text: string, path: Path, row: unknown[]) => setAt(text, path, JSON.stringify(row))

/** A list of texts is shown as they are written by hand, with commas. */
const termShown = (term: unknown) => (typeof term === 'string' ? term : Array.isArray(term) && term.every((it) => typeof it === 'string' && !it.includes(',')) ? term.join(', ') : JSON.stringify(term))

/** What was a text stays one, and a list of texts a list; what was neither stays JSON where it can be read. */
function termText(before: unknown, operator: string, typed: string): string {
  const isList = (Array.isArray(before) && before.every((it) => typeof it === 'string')) || (LISTS.has(operator) && typeof before === 'string')
  if (isList) return JSON.stringify(typed.split(',').map((it, at, all) => (at < all.length - 1 ? it.trim() : it.trimStart())))
  if (typeof before === 'string') return JSON.stringify(typed)
  try {
    JSON.parse(typed)
    return typed
  } catch {
    return JSON.stringify(typed)
  }
}
