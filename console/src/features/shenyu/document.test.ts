/** Texts of ShenYu's objects go into forms and back, and differ in one place after one edit. */
import { describe, expect, it } from 'vitest'
import formsText from '../../../../crates/tollhouse-shenyu-gateway/src/forms.json?raw'
import { pretty, withoutMembers } from '../../lib/json-text'
import { type Path, setAt, textAt } from '../../lib/pointer'
import { isRecord, planOf, type Schema, startOf } from '../../form/plan'
import { closed, faults, HELD, opened, SHENYU_KINDS, type ShenyuKind } from './document'

interface Forms { kinds: Record<ShenyuKind, Schema>; plugins: Record<string, Partial<Record<'config' | 'selector' | 'rule', Schema>>> }
const forms = JSON.parse(formsText) as Forms

/** A value that has every field of a schema. */
function filled(schema: Schema): unknown {
  if (schema.enum) return schema.enum.at(-1)
  if (schema.properties) return Object.fromEntries(Object.entries(schema.properties).map(([name, inner]) => [name, filled(inner)]))
  if (schema.patternProperties) return { 'X-A': 'b' }
  const [type] = [schema.type].flat()
  if (type === 'array') return [filled((schema.items as Schema | undefined) ?? {}), filled((schema.items as Schema | undefined) ?? {})]
  return { integer: 7, boolean: false, string: 'a "quoted" ${text}' }[String(type)] ?? 'x'
}

/** Objects as ShenYu's admin tells them: all fields, settings as text in many hands' spellings, and what only answers have. */
function objects(): { kind: ShenyuKind; told: string }[] {
  const extra = '"dateCreated":"2026-01-01 00:00:00","matchModeName":"and","n":12345678901234567890'
  const settings = [
    ...Object.values(forms.plugins).flatMap((plugin) => Object.values(plugin).map((schema) => JSON.stringify(filled(schema)))),
    '', '{}', '[]', '{"a":1.0,"n":12345678901234567890,"unknown":{"x":[null,""]}}', '{ "spaced" : [ 1 , 2 ] }\n', 'no JSON', '"a text"', '[{"upstreamUrl":"a:1","weight":"50"}]',
  ]
  return SHENYU_KINDS.flatMap((kind) => settings.map((inner) => {
    const value = { ...(filled(forms.kinds[kind]) as object), id: '1' }
    const held = HELD[kind]
    const text = JSON.stringify(held ? { ...value, [held]: inner } : value)
    return { kind, told: `${text.slice(0, -1)},${extra}}` }
  }))
}

describe("ShenYu's objects", () => {
  it('are tried with the settings of all plugins', () => {
    expect(objects().length).toBeGreaterThan(200)
  })

  it('go back as they came where nobody edits them', () => {
    for (const { kind, told } of objects()) {
      const back = closed(kind, opened(kind, told), told)
      const held = HELD[kind]
      if (held) expect(textAt(back, [held])).toBe(textAt(told, [held]))
      expect(textAt(back, ['n'])).toBe('12345678901234567890')
      // Opened again, it is what it was.
      expect(opened(kind, back)).toBe(opened(kind, told))
    }
  })

  it('change in one place alone where one field is edited', () => {
    for (const { kind, told } of objects()) {
      const before = opened(kind, told)
      for (const path of places(JSON.parse(before)).slice(1)) {
        const edited = setAt(before, path, '"__changed__"')
        const back = opened(kind, closed(kind, edited, told))
        // A whole text of settings that is replaced stays the text that it is.
        expect(textAt(back, path)).toBe('"__changed__"')
        expect(setAt(back, path, textAt(before, path) as string)).toBe(before)
      }
    }
  })

  it('are shown without what only answers have', () => {
    const told = '{"id":"1","name":"a","selectorConditions":[{"id":"1-0","selectorId":"1","paramType":"uri"}],"discoveryUpstreams":[],"handle":"{\\"a\\":1}"}'
    expect(opened('selector', told)).toBe(pretty('{"name":"a","selectorConditions":[{"paramType":"uri"}],"handle":{"a":1}}'))
    expect(closed('selector', opened('selector', told), told)).toContain('"handle": "{\\"a\\":1}"')
    expect(withoutMembers(opened('selector', told), ['handle'])).not.toContain('id')
  })

  it('have a field of a kind for everything that a form asks for', () => {
    const raw: string[] = []
    const visit = (schema: Schema, name: string) => {
      const plan = planOf(schema, undefined, name.split('.').at(-1))
      if (plan.kind === 'raw') raw.push(name)
      if (plan.kind === 'object') for (const member of plan.members) visit(member.schema, `${name}.${member.name}`)
      if (plan.kind === 'list') visit(plan.item, `${name}[]`)
      expect(JSON.parse(startOf(schema)), name).toBeDefined()
    }
    for (const kind of SHENYU_KINDS) visit(forms.kinds[kind], kind)
    for (const [name, plugin] of Object.entries(forms.plugins)) for (const [scope, schema] of Object.entries(plugin)) visit(schema, `${name}.${scope}`)
    expect(raw).toEqual([])
  })

  it('are refused in words that find their fields', () => {
    expect(faults('Request error! invalid argument [name: must not be null| pluginId: there is no such plugin]')).toEqual([
      { pointer: '/name', text: 'must not be null' }, { pointer: '/pluginId', text: 'there is no such plugin' },
    ])
    expect(faults('Request error! invalid argument [handle: must be JSON: expected value at line 1 column 1]')).toEqual([{ pointer: '/handle', text: 'must be JSON: expected value at line 1 column 1' }])
    expect(faults('the store is closed; ask again')).toEqual([])
  })
})

/** All places in a value, parents before what is in them. */
function places(value: unknown, path: Path = []): Path[] {
  const inner = Array.isArray(value) ? value.map((one, at) => places(one, [...path, at])) : isRecord(value) ? Object.entries(value).map(([name, one]) => places(one, [...path, name])) : []
  return [path, ...inner.flat()]
}
