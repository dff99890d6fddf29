/** Objects of every kind keep what nobody edits, and have a field for each of their members. */
import { describe, expect, it } from 'vitest'
import openapi from '../../../docs/reference/openapi.json?raw'
import { items, members, pretty } from '../lib/json-text'
import { type Path, pointerOf, removeAt, setAt, textAt } from '../lib/pointer'
import examples from './examples.json?raw'
import { isRecord, planOf, type Schema, startOf } from './plan'

/** What schemas are called that are of these kinds; those of secrets are their keepers'. */
const SCHEMAS: Record<string, string> = {
  routes: 'route', services: 'service', upstreams: 'upstream', consumers: 'consumer', consumer_groups: 'consumer_group', plugin_configs: 'plugin_config', global_rules: 'global_rule',
  plugin_metadata: 'plugin_metadata', ssls: 'ssl', stream_routes: 'stream_route', protos: 'proto', secrets: 'secret_vault',
}

/** Other schemas of which forms are made. */
const OTHERS = ['credential', 'secret_aws', 'secret_gcp']

const { components } = JSON.parse(openapi) as { components: { schemas: Record<string, Schema> } }

/** The examples as they are written: numbers keep their digits. */
const written = [...members(examples)].flatMap(({ name, value, end }) => {
  const all = examples.slice(value, end)
  return [...items(all)].map((item) => ({ kind: String(name), text: pretty(all.slice(item.start, item.end)) }))
})

/** The members of an object with the text of each. */
const texts = (text: string) => [...members(text)].map(({ name, value, end }) => [String(name), text.slice(value, end).trim()] as const)

/** All places in a value, parents before what is in them. */
function places(value: unknown, path: Path = []): Path[] {
  const inner = Array.isArray(value) ? value.map((one, at) => places(one, [...path, at])) : isRecord(value) ? Object.entries(value).map(([name, one]) => places(one, [...path, name])) : []
  return [path, ...inner.flat()]
}

/** A document with all that a schema has a field for, each as it begins when it is added. */
function whole(schema: Schema, text = '{}', path: Path = []): string {
  const plan = planOf(schema, valueAt(text, path), String(path.at(-1) ?? ''))
  if (plan.kind === 'object') return plan.members.reduce((made, member) => addTo(made, [...path, member.name], member.schema), text)
  if (plan.kind === 'list') return addTo(text, [...path, 0], plan.item)
  return text
}

const addTo = (text: string, path: Path, schema: Schema) => whole(schema, setAt(text, path, startOf(schema, String(path.at(-1)))), path)

const valueAt = (text: string, path: Path): unknown => JSON.parse(textAt(text, path) ?? 'null')

const documents = [
  ...written,
  ...[...Object.values(SCHEMAS), ...OTHERS].map((kind) => ({ kind, text: whole(components.schemas[kind] as Schema) })),
]

describe('objects of each kind', () => {
  it('are there for all kinds, and whole ones have every field', () => {
    expect(new Set(written.map(({ kind }) => kind))).toEqual(new Set(Object.keys(SCHEMAS)))
    const route = JSON.parse(documents.find(({ kind }) => kind === 'route')?.text ?? '{}') as Record<string, unknown>
    expect(Object.keys(route).length).toBeGreaterThan(20)
    expect(isRecord(route.upstream) && isRecord(route.upstream.checks)).toBe(true)
  })

  it('are what they were when what is there is written again', () => {
    for (const { kind, text } of documents) {
      for (const path of places(JSON.parse(text))) expect(setAt(text, path, textAt(text, path) as string), `${kind} ${pointerOf(path)}`).toBe(text)
    }
  })

  it('differ in one place after one edit, and not at all after it is taken back', () => {
    for (const { kind, text } of documents) {
      for (const path of places(JSON.parse(text)).slice(1)) {
        const edited = setAt(text, path, '"__changed__"')
        expect(textAt(edited, path), `${kind} ${pointerOf(path)}`).toBe('"__changed__"')
        expect(setAt(edited, path, textAt(text, path) as string)).toBe(text)
      }
    }
  })

  it('lose what is removed and nothing else', () => {
    for (const { kind, text } of documents) {
      for (const [name] of texts(text)) expect(texts(removeAt(text, [name])), `${kind} ${name}`).toEqual(texts(text).filter(([other]) => other !== name))
    }
  })

  it('have a field for each member that is in them, by its own shape', () => {
    /** What stays text: its schema says nothing of what is inside. */
    const RAW = /^\/vars$|\/metadata$|\/plugins\//
    const found: string[] = []
    for (const { kind, text } of written) {
      const visit = (schema: Schema, path: Path) => {
        const value = valueAt(text, path)
        const plan = planOf(schema, value, typeof path.at(-1) === 'string' ? String(path.at(-1)) : '')
        if (plan.kind === 'raw') found.push(`${kind} ${pointerOf(path)}`)
        if (plan.kind === 'object' && isRecord(value)) for (const member of plan.members) if (member.name in value) visit(member.schema, [...path, member.name])
        if (plan.kind === 'list' && Array.isArray(value)) for (const at of value.keys()) visit(plan.item, [...path, at])
      }
      visit(components.schemas[SCHEMAS[kind] as string] as Schema, [])
    }
    expect(found.filter((it) => !RAW.test(it.split(' ')[1] as string))).toEqual([])
  })
})
