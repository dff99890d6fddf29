/**
 * ShenYu's objects as they are edited: settings that it keeps as JSON within a text stand there as JSON, and what answers
 * have more than objects is left out. On the way back a text that nobody has edited is the one that it was.
 */
import { compact, fault, pretty, withoutMembers } from '../../lib/json-text'
import { removeAt, setAt, textAt } from '../../lib/pointer'

export const SHENYU_KINDS = ['plugin', 'selector', 'rule', 'meta-data', 'appAuth'] as const
export type ShenyuKind = (typeof SHENYU_KINDS)[number]

/** The member that is JSON within a text. */
export const HELD: Record<ShenyuKind, string | undefined> = { plugin: 'config', selector: 'handle', rule: 'handle', 'meta-data': 'rpcExt', appAuth: undefined }

/** What answers say of an object and nobody writes. */
const OWN = [
  'id', 'dateCreated', 'dateUpdated', 'matchModeName', 'typeName', 'discoveryHandler', 'discoveryVO', 'discoveryUpstreams', 'file', 'pluginName',
  'jarName', 'namespaceId',
]

/** Conditions are told with ids that are made of their places. */
const CONDITIONS: Partial<Record<ShenyuKind, { list: string; owner: string }>> = {
  selector: { list: 'selectorConditions', owner: 'selectorId' }, rule: { list: 'ruleConditions', owner: 'ruleId' },
}

/** Whether a text holds JSON that a form can show. */
const isStructure = (text: string) => /^\s*[{[]/.test(text) && fault(text) === undefined

/** An object as it is edited, of the text in which it was told. */
export function opened(kind: ShenyuKind, told: string): string {
  const own = kind === 'plugin' ? [...OWN, 'pluginId'] : OWN
  let text = pretty(withoutMembers(told, own))
  const conditions = CONDITIONS[kind]
  if (conditions) {
    const count = (JSON.parse(textAt(text, [conditions.list]) ?? '[]') as unknown[] | null)?.length ?? 0
    for (let at = 0; at < count; at += 1) {
      for (const name of ['id', conditions.owner]) text = removeAt(text, [conditions.list, at, name])
    }
  }
  const held = HELD[kind]
  const token = held && textAt(text, [held])
  if (held === undefined || !token?.startsWith('"')) return text
  const inner = JSON.parse(token) as string
  return isStructure(inner) ? setAt(text, [held], inner) : text
}

/** An object as it is sent, of the text that was edited and the one that was told. */
export function closed(kind: ShenyuKind, edited: string, told: string): string {
  const held = HELD[kind]
  const token = held && textAt(edited, [held])
  if (held === undefined || token === undefined || !isStructure(token)) return edited
  const before = told === '' ? undefined : textAt(told, [held])
  const inner = before?.startsWith('"') ? (JSON.parse(before) as string) : undefined
  const isSame = inner !== undefined && isStructure(inner) && pretty(inner) === pretty(token)
  return setAt(edited, [held], isSame ? (before as string) : JSON.stringify(compact(token)))
}

/** What is wrong at which field, of the words in which ShenYu's admin refuses: `… [name: must not be null| sort: …]`. */
export function faults(text: string): { pointer: string; text: string }[] {
  const listed = /invalid argument \[(.*)\]/s.exec(text)?.[1]
  if (listed === undefined) return []
  return listed.split('| ').flatMap((one) => {
    const [, name, reason] = /^([\w.-]+): (.*)$/s.exec(one) ?? []
    return name && reason ? [{ pointer: name === 'body' ? '' : `/${name}`, text: reason }] : []
  })
}
