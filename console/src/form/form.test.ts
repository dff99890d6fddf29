/** Edits of one place in a document, its steps back, and the plans of schemas. */
import { describe, expect, it } from 'vitest'
import openapi from '../../../docs/reference/openapi.json?raw'
import { pretty } from '../lib/json-text'
import { type Path, pointerOf, removeAt, renameAt, setAt, textAt } from '../lib/pointer'
import { startState, step } from './document'
import { fits, isConditions, isRecord, planOf, type Schema, startOf } from './plan'

/** Numbers of a seed: the same documents in every run. */
function numbers(seed: number) {
  let state = seed
  return (below: number) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return Math.floor((state / 2 ** 32) * below)
  }
}

const SCALARS = ['1.0', '12345678901234567890', '0', 'null', 'true', '""', '"a\\u0041/~\\"{}[],:"', '-1e400', '"$env://X"']
const NAMES = ['uri', 'a/b', 'm~n', 'x "y"', 'ключ', 'nodes', 'z']

function randomJson(pick: (below: number) => number, depth: number): string {
  const kind = pick(depth > 0 ? 4 : 2)
  const inner = () => Array.from({ length: pick(4) }, (_, at) => [at, randomJson(pick, depth - 1)] as const)
  if (kind === 2) return `[${inner().map(([, text]) => text).join(' , ')}]`
  if (kind === 3) return `{${inner().map(([at, text]) => `${JSON.stringify(NAMES[(at * 2 + depth) % NAMES.length])} : ${text}`).join(',')}}`
  return SCALARS[pick(SCALARS.length)] as string
}

/** All places in a value, parents before what is in them. */
function places(value: unknown, path: Path = []): Path[] {
  const inner = Array.isArray(value) ? value.map((one, at) => places(one, [...path, at])) : isRecord(value) ? Object.entries(value).map(([name, one]) => places(one, [...path, name])) : []
  return [path, ...inner.flat()]
}

/** The examples of the plugins' manuals. */
const manuals = import.meta.glob<string>('../../../docs/reference/plugins/*.md', { query: '?raw', import: 'default', eager: true })
const examples = Object.entries(manuals).flatMap(([path, manual]) => {
  const found = /```json\n([\s\S]*?)```/.exec(manual)
  return found ? [{ name: path.split('/').at(-1)?.replace('.md', ''), text: found[1] as string }] : []
})

const documents = [
  ...Array.from({ length: 200 }, (_, seed) => `{"top":${randomJson(numbers(seed), 4)},"n":9007199254740993}`),
  ...examples.map(({ name, text }) => `{"uri":"/x","plugins":{"${name}":${text}},"upstream":{"nodes":{"a:80":1}}}`),
]

describe('an edit of one place', () => {
  it('is tried on the examples of all plugins', () => {
    expect(examples.length).toBeGreaterThan(40)
  })

  it('that writes what is there changes nothing', () => {
    for (const document of documents) {
      const text = pretty(document)
      for (const path of places(JSON.parse(text))) {
        const written = textAt(text, path)
        expect(written, pointerOf(path)).toBeDefined()
        expect(setAt(text, path, written as string)).toBe(text)
      }
    }
  })

  it('changes that place and nothing else', () => {
    for (const document of documents) {
      const text = pretty(document)
      for (const path of places(JSON.parse(text)).slice(1)) {
        const edited = setAt(text, path, '"__changed__"')
        expect(textAt(edited, path)).toBe('"__changed__"')
        expect(setAt(edited, path, textAt(text, path) as string)).toBe(text)
      }
    }
  })

  it('takes away what it added, and leaves the text as it was', () => {
    for (const document of documents) {
      const text = pretty(document)
      for (const path of places(JSON.parse(text))) {
        const around = JSON.parse(textAt(text, path) as string) as unknown
        if (!Array.isArray(around) && !isRecord(around)) continue
        const added: Path = [...path, Array.isArray(around) ? around.length : '__new__']
        const edited = setAt(text, added, '12345678901234567890')
        expect(textAt(edited, added)).toBe('12345678901234567890')
        expect(removeAt(edited, added)).toBe(text)
      }
    }
  })

  it('makes what is missing on the way, and a rename keeps the position', () => {
    expect(JSON.parse(setAt('{}', ['a', 'b', 0], '1'))).toEqual({ a: { b: [1] } })
    expect(setAt('{"a":{}}', ['a', 'x'], '1.0')).toBe(pretty('{"a":{"x":1.0}}'))
    expect(renameAt('{"a":1,"b":2}', ['a'], 'c')).toBe(pretty('{"c":1,"b":2}'))
    expect(renameAt('{"a":1,"b":2}', ['a'], 'b')).toBe('{"a":1,"b":2}')
    expect(removeAt('[1, 2, 3]', [1])).toBe(pretty('[1,3]'))
    expect(removeAt('[1, 2]', [1])).toBe(pretty('[1]'))
  })

  it('tells empty text, null, zero and nothing apart', () => {
    const text = '{"a":"","b":null,"c":0,"d":[]}'
    expect(['a', 'b', 'c', 'd', 'e'].map((name) => textAt(text, [name]))).toEqual(['""', 'null', '0', '[]', undefined])
  })
})

describe('steps back', () => {
  const edit = (text: string, place: string, at: number) => ({ kind: 'edit' as const, text, place, at })

  it('cross the form and the text, and typing in one field is one of them', () => {
    let state = startState('0')
    for (const action of [edit('1', '/a', 5000), edit('2', '/a', 5100), edit('3', 'text', 5200)]) state = step(state, action)
    expect(state.past).toEqual(['0', '2'])
    state = step(state, { kind: 'undo' })
    expect(state.text).toBe('2')
    state = step(state, { kind: 'undo' })
    expect(state.text).toBe('0')
    expect(step(state, { kind: 'undo' }).text).toBe('0')
    state = step(step(state, { kind: 'redo' }), { kind: 'redo' })
    expect(state.text).toBe('3')
    expect(step(state, { kind: 'redo' }).text).toBe('3')
  })
})

describe('plans', () => {
  const limit: Schema = {
    type: 'object',
    properties: { policy: { type: 'string', enum: ['local', 'redis'] }, count: { oneOf: [{ type: 'integer' }, { type: 'string' }] } },
    oneOf: [{ required: ['count', 'time_window'], not: { required: ['rules'] } }, { required: ['rules'] }],
    if: { properties: { policy: { enum: ['redis'] } }, required: ['policy'] },
    then: { properties: { redis_host: { type: 'string' } }, required: ['redis_host'] },
    encrypt_fields: ['redis_host'],
  }

  it('have the fields that the value asks for', () => {
    const names = (value: unknown) => {
      const plan = planOf(limit, value)
      return plan.kind === 'object' ? plan.members.map((it) => `${it.name}${it.isRequired ? '!' : ''}${it.isSecret ? '?' : ''}`) : []
    }
    expect(names({})).toEqual(['policy', 'count'])
    expect(names({ policy: 'local' })).toEqual(['policy', 'count'])
    expect(names({ policy: 'redis' })).toEqual(['policy', 'count', 'redis_host!?'])
    const plan = planOf(limit, {})
    expect(plan.kind === 'object' && plan.groups).toEqual([{ count: 'exactly', sides: [['count', 'time_window'], ['rules']] }])
  })

  it('follow the shape that is there', () => {
    const cases: [Schema, unknown, string, string][] = [
      [limit.properties?.count as Schema, '$count', '', 'amount'],
      [{ type: 'boolean' }, undefined, '', 'switch'],
      [{ type: 'array', items: { type: 'string', enum: ['GET'] } }, [], '', 'flags'],
      [{ type: 'array' }, [['arg_x', '==', '1']], 'vars', 'conditions'],
      [{ type: 'array' }, ['OR', ['a', '==', '1']], 'vars', 'conditions'],
      [{ type: 'array' }, ['OR', ['a', '==', '1'], ['AND', ['b', '==', '2']]], 'vars', 'raw'],
      [{ anyOf: [{ type: 'object' }, { type: 'array' }] }, {}, 'nodes', 'nodes'],
      [{ type: 'object' }, {}, 'plugins', 'plugins'],
      [{ type: 'object' }, {}, 'discovery_args', 'object'],
      [{ type: 'object' }, {}, 'body_schema', 'raw'],
      [{ type: 'object', additionalProperties: false }, {}, 'realm', 'raw'],
      [{ type: 'object', patternProperties: { '.*': { type: 'string' } } }, {}, '', 'object'],
      [{}, 5, '', 'raw'],
    ]
    for (const [schema, value, name, kind] of cases) expect(planOf(schema, value, name).kind, JSON.stringify(schema)).toBe(kind)
    expect(isConditions([['a', 'in', ['x']]])).toBe(true)
    expect(isConditions([['a', '!', '==', 1]])).toBe(true)
    expect(isConditions([['a', '!', '==', ['x', ['y']]]])).toBe(false)
  })

  it('have rows for what a schema leaves open, by what stands there', () => {
    const rest = (value: unknown, name: string) => {
      const plan = planOf({ type: 'object' }, value, name)
      if (plan.kind !== 'object' || plan.rest === undefined) return plan.kind
      const { rest: inner } = plan
      return Object.values((value ?? { new: undefined }) as object).map((one) => planOf(inner, one).kind)
    }
    expect(rest({ 'X-A': 'b' }, 'headers')).toEqual(['text'])
    expect(rest({ 'X-A': 'b', 'X-B': 5 }, 'headers')).toEqual(['either', 'either'])
    expect(rest({ a: 'b', c: 5, d: true, e: { f: {} }, g: [1], h: null }, 'error_response')).toEqual(['either', 'either', 'either', 'either', 'raw', 'raw'])
    expect(rest(undefined, 'error_response')).toEqual(['either'])
    const response: Schema = { oneOf: [{ type: 'string' }, { type: 'object' }] }
    expect([planOf(response, 'down'), planOf(response, { code: 1 })]).toMatchObject([{ kind: 'either', at: 0 }, { kind: 'either', at: 1 }])
  })

  it('know secrets wherever they stand', () => {
    const schema: Schema = {
      type: 'object', encrypt_fields: ['token', 'auth.key', 'rules.tls.key'],
      properties: { token: { type: 'string' }, auth: { type: 'object', properties: { key: { type: 'string' }, name: { type: 'string' } } }, rules: { type: 'array', items: { type: 'object', properties: { tls: { type: 'object', properties: { key: { type: 'string' } } } } } } },
    }
    const found: string[] = []
    const visit = (one: Schema, path: Path) => {
      const plan = planOf(one, undefined, String(path.at(-1) ?? ''))
      if (plan.kind === 'list') visit(plan.item, [...path, 0])
      if (plan.kind !== 'object') return
      for (const member of plan.members) {
        if (member.isSecret) found.push(pointerOf([...path, member.name]))
        visit(member.schema, [...path, member.name])
      }
    }
    visit(schema, [])
    expect(found).toEqual(['/token', '/auth/key', '/rules/0/tls/key'])
  })

  it('make an object of a member without a type that contains a secret', () => {
    const schema: Schema = { type: 'object', properties: { authorization: { description: 'd' } }, encrypt_fields: ['authorization.token'] }
    const kind = (value: unknown) => {
      const plan = planOf(schema, value)
      return plan.kind === 'object' && planOf(plan.members[0]?.schema as Schema, (value as { authorization?: unknown } | undefined)?.authorization)
    }
    expect(kind(undefined)).toMatchObject({ kind: 'object', members: [{ name: 'token', schema: { type: 'string' }, isSecret: true }] })
    expect(kind({ authorization: { token: 'a:b' } })).toMatchObject({ kind: 'object' })
    expect(kind({ authorization: 'a:b' })).toEqual({ kind: 'raw' })
  })

  it('choose among objects by what they hold', () => {
    const set: Schema = { type: 'object', properties: { set: { type: 'object' } }, additionalProperties: false }
    const plain: Schema = { type: 'object', patternProperties: { '.+': { type: 'string' } } }
    expect([fits(set, { set: {} }), fits(set, { 'X-A': 'b' }), fits(plain, { 'X-A': 'b' })]).toEqual([true, false, true])
    expect(planOf({ oneOf: [set, plain] }, { 'X-A': 'b' })).toMatchObject({ kind: 'either', at: 1 })
  })

  it('begin with the least that a field can be', () => {
    const cases: [Schema, string][] = [
      [{ type: 'string' }, '""'], [{ type: 'integer' }, '0'], [{ type: 'integer', default: 5 }, '5'], [{ type: 'boolean' }, 'true'],
      [{ type: 'array', items: { type: 'string' } }, '[]'], [{ type: 'object', properties: { a: {} } }, '{}'], [{ type: 'object' }, '{}'],
      [{ type: 'array' }, '[]'], [{ enum: ['b', 'c'] }, '"b"'], [{}, 'null'],
    ]
    for (const [schema, text] of cases) expect(startOf(schema), JSON.stringify(schema)).toBe(text)
  })

  it('of all kinds of objects have a field for everything', () => {
    const { components } = JSON.parse(openapi) as { components: { schemas: Record<string, Schema> } }
    const found: string[] = []
    const visit = (kind: string, schema: Schema, path: Path) => {
      const plan = planOf(schema, undefined, String(path.at(-1) ?? ''))
      if (plan.kind === 'raw') found.push(`${kind} ${pointerOf(path)}`)
      if (plan.kind === 'object') for (const member of plan.members) visit(kind, member.schema, [...path, member.name])
      if (plan.kind === 'list') visit(kind, plan.item, [...path, 0])
      if (plan.kind === 'either') for (const variant of plan.variants) visit(kind, variant, path)
    }
    for (const kind of ['route', 'service', 'upstream', 'consumer', 'consumer_group', 'global_rule', 'plugin_config', 'plugin_metadata', 'ssl', 'stream_route', 'proto', 'secret_vault', 'secret_aws', 'secret_gcp']) {
      visit(kind, components.schemas[kind] as Schema, [])
    }
    expect(found).toEqual([])
  })
})
