/** Layers lie over what is there: they name no field that is not, hide none that is, and speak both languages. */
import { describe, expect, it } from 'vitest'
import formsText from '../../../crates/tollhouse-shenyu-gateway/src/forms.json?raw'
import openapi from '../../../docs/reference/openapi.json?raw'
import { arrange, fieldsOf, isChoice } from './arrange'
import { COMPARISONS, SUBJECTS, VALUE_KINDS } from './fields/comparisons'
import { moved } from './fields/one-of'
import { splitPort } from './fields/nodes'
import { hidden, leads, named, strangers, textsOf, textsOfLook } from './inspect'
import { LAYERS } from './layers/kinds'
import type { Layer, Look, Text } from './layers/layer'
import { namesOf } from './layers/layer'
import { PLUGIN_LAYERS } from './layers/plugins/all'
import { RULE_LAYERS } from './layers/rules/all'
import { SETTINGS, SHENYU_LAYERS } from './layers/shenyu'
import { missingIn } from './missing'
import { planOf, type Schema } from './plan'
import { TEXTS } from './texts'
import { inWords, titleOfName, unitOf } from './titles'
import { fixed } from './views'

const { components } = JSON.parse(openapi) as { components: { schemas: Record<string, Schema> } }
const forms = JSON.parse(formsText) as { kinds: Record<string, Schema>; plugins: Record<string, Partial<Record<'config' | 'selector' | 'rule', Schema>>> }

/** The names of each plugin's fields, as its manual tells them. */
const manuals = import.meta.glob<string>('../../../docs/reference/plugins/*.md', { query: '?raw', import: 'default', eager: true })
const manualOf = (plugin: string) => new Set([...(manuals[`../../../docs/reference/plugins/${plugin}.md`] ?? '').matchAll(/^\| `([^`]+)` \|/gm)].map((match) => match[1] as string))

/** Metadata are of a plugin each, and their schema is its. */
const kinds = Object.entries(LAYERS).filter(([kind]) => kind !== 'plugin_metadata')

const settings = Object.entries(SETTINGS).flatMap(([plugin, scopes]) => Object.entries(scopes ?? {}).map(([scope, look]) => ({ plugin, scope: scope as 'rule', look: look as Look })))

describe('layers', () => {
  it('are there for every kind of object', () => {
    expect(Object.keys(LAYERS).sort()).toEqual([
      'consumer', 'consumer_group', 'credential', 'global_rule', 'plugin_config', 'plugin_metadata', 'proto', 'route', 'secret_aws', 'secret_gcp', 'secret_vault', 'service', 'ssl', 'stream_route', 'upstream',
    ])
    expect(Object.keys(SHENYU_LAYERS).sort()).toEqual(Object.keys(forms.kinds).sort())
  })

  it('name only fields that exist', () => {
    const wrong: string[] = []
    for (const [kind, layer] of kinds) for (const name of named(layer)) if (!leads(components.schemas[kind], name.split('.'))) wrong.push(`${kind} ${name}`)
    for (const [kind, layer] of Object.entries(SHENYU_LAYERS)) {
      for (const name of named(layer)) if (!['handle', 'config'].includes(name) && !leads(forms.kinds[kind], name.split('.'))) wrong.push(`${kind} ${name}`)
    }
    for (const { plugin, scope, look } of settings) {
      for (const name of named(look.layer as Layer)) if (!leads(forms.plugins[plugin]?.[scope], name.split('.'))) wrong.push(`${plugin} ${scope} ${name}`)
    }
    for (const [plugin, { layer, identity, start }] of Object.entries(PLUGIN_LAYERS)) {
      const known = manualOf(plugin)
      const all = [...(layer ? namesOf(layer) : []), ...Object.keys(layer?.fields ?? {}), ...(identity ? namesOf(identity) : []), ...Object.keys(start ?? {})]
      for (const name of all) if (!known.has(name)) wrong.push(`${plugin} ${name}`)
    }
    expect(wrong).toEqual([])
  })

  it('title only values that exist', () => {
    const wrong = [
      ...kinds.flatMap(([kind, layer]) => strangers(components.schemas[kind], layer, `${kind} `)), ...Object.entries(SHENYU_LAYERS).flatMap(([kind, layer]) => strangers(forms.kinds[kind], layer, `${kind} `)),
      ...settings.flatMap(({ plugin, scope, look }) => strangers(forms.plugins[plugin]?.[scope], look.layer as Layer, `${plugin} `)),
    ]
    expect(wrong).toEqual([])
  })

  it('hide no field of any kind: what no section names is below them', () => {
    const lost = [
      ...kinds.flatMap(([kind, layer]) => hidden(components.schemas[kind] as Schema, layer, kind)), ...Object.entries(SHENYU_LAYERS).flatMap(([kind, layer]) => hidden(forms.kinds[kind] as Schema, layer, kind)),
      ...settings.flatMap(({ plugin, scope, look }) => hidden(forms.plugins[plugin]?.[scope] as Schema, look.layer, `${plugin} ${scope}`)),
    ]
    expect(lost).toEqual([])
  })

  it('have all their texts in both languages', () => {
    const all = [...Object.values(LAYERS), ...Object.values(RULE_LAYERS), ...Object.values(SHENYU_LAYERS), ...Object.values(PLUGIN_LAYERS).flatMap(({ layer, identity }) => [layer, identity].flatMap((it) => it ?? []))]
    const texts: Text[] = [...all.flatMap((layer) => [...textsOf(layer)]), ...settings.flatMap(({ look }) => [...textsOfLook(look)]), ...Object.values(TEXTS), ...[COMPARISONS, VALUE_KINDS, SUBJECTS].flatMap((it) => Object.values(it))]
    expect(texts.length).toBeGreaterThan(300)
    expect(texts.filter(([en, zh]) => en.trim() === '' || zh.trim() === '')).toEqual([])
    // What is the same in both is a name: no sentence is left in English.
    expect(texts.filter(([en, zh]) => en === zh && / [a-z]/.test(en)).map(([en]) => en)).toEqual([])
  })
})

describe('objects without a layer', () => {
  it('show what is required first, then groups and a few others, and fold the rest', () => {
    const schema: Schema = {
      type: 'object', required: ['c'], oneOf: [{ required: ['f'] }, { required: ['g'] }],
      properties: Object.fromEntries(['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h', '_meta'].map((name) => [name, { type: 'string' }])),
    }
    const plan = planOf(schema, {})
    if (plan.kind !== 'object') throw new Error('not an object')
    const { sections, rest } = arrange(plan, undefined, { e: 'x', unknown: 1 })
    const shown = sections[0]?.items.map((item) => (isChoice(item) ? item.sides.map((side) => side.fields.map((it) => it.member.name)) : item.member.name))
    expect(shown).toEqual(['c', [['f'], ['g']], 'e'])
    expect(rest.map((it) => it.member.name)).toEqual(['a', 'b', 'd', 'h', '_meta'])
    expect(arrange(plan, undefined, { unknown: 1 }).unknown).toEqual(['unknown'])
  })

  it('have titles, units and larger units that are made of their schemas', () => {
    expect(['redis_host', 'http_to_https', 'maxConcurrentRequests', 'uri', 'redis_ssl_verify'].map(titleOfName)).toEqual(['Redis host', 'HTTP to HTTPS', 'Maximum concurrent requests', 'URI', 'Redis SSL verify'])
    const number: Schema = { type: 'integer' }
    expect(unitOf('timeout', { ...number, description: 'Timeout in milliseconds; 1000 by default.' }, undefined)).toBe('milliseconds')
    expect(unitOf('idle', { ...number, description: 'Seconds that a connection may idle.' }, undefined)).toBe('seconds')
    expect(unitOf('max', { ...number, description: 'Bytes that a body may have.' }, undefined)).toBe('bytes')
    expect(unitOf('text', { type: 'string', description: 'Bytes.' }, undefined)).toBeUndefined()
    expect([inWords(90_000, 'milliseconds'), inWords(3600, 'seconds'), inWords(5, 'seconds'), inWords(1048576, 'bytes'), inWords('$x', 'seconds'), inWords(undefined, 'bytes')]).toEqual(['= 1.5 min', '= 1 h', undefined, '= 1 MiB', undefined, undefined])
  })
})

describe('one of several sides', () => {
  it('takes along what both can hold, and leaves nothing of the other', () => {
    const plan = planOf(components.schemas.route as Schema, {})
    if (plan.kind !== 'object') throw new Error('not an object')
    const { sections } = arrange(plan, LAYERS.route, {})
    const sidesOf = (name: string) => sections.flatMap((section) => section.items).filter(isChoice).find((choice) => fieldsOf(choice).some((it) => it.member.name === name))?.sides ?? []
    const after = (value: object, name: string, next: number) => JSON.parse(moved(JSON.stringify(value), [], sidesOf(name), next)) as unknown
    expect(after({ uri: '/a', name: 'n' }, 'uri', 1)).toEqual({ name: 'n', uris: ['/a'] })
    expect(after({ uris: ['/a', '/b'] }, 'uri', 0)).toEqual({ uri: '/a' })
    expect(after({ uris: [] }, 'uri', 0)).toEqual({})
    expect(after({ upstream: { nodes: [] } }, 'upstream_id', 1)).toEqual({})
    expect(after({ upstream_id: 'orders' }, 'upstream_id', 2)).toEqual({})
  })
})

describe('what is missing', () => {
  const limit: Schema = {
    type: 'object', properties: { count: { type: 'integer' }, time_window: { type: 'integer' }, rules: { type: 'array', items: { type: 'object', properties: {} } } },
    oneOf: [{ required: ['count', 'time_window'] }, { required: ['rules'] }],
  }
  const missing = (kind: string, value: object) => missingIn(components.schemas[kind] as Schema, LAYERS[kind], value, (name) => (name === 'limit-count' ? limit : undefined)).map(({ path }) => path.join('/'))

  it('is named by its field, and nothing is where an object is whole', () => {
    expect(missing('route', {})).toEqual(['uri', 'upstream'])
    expect(missing('route', { uri: '' })).toEqual(['uri', 'upstream'])
    expect(missing('route', { uris: [], upstream: { type: 'roundrobin' } })).toEqual(['uris', 'upstream/nodes'])
    expect(missing('route', { uri: '/a', upstream: { nodes: [{ host: 'a', weight: 1 }] } })).toEqual([])
    expect(missing('route', { uri: '/a', upstream: { nodes: { 'a:80': 1 } } })).toEqual([])
    expect(missing('route', { uri: '/a', service_id: 1 })).toEqual([])
    expect(missing('upstream', { service_name: 'a' })).toEqual(['discovery_type'])
    expect(missing('ssl', { cert: 'x' })).toEqual(['key', 'snis'])
    expect(missingIn(components.schemas.ssl as Schema, LAYERS.ssl, { cert: 'x', snis: ['a'] }, () => undefined, 'stored')).toEqual([])
    expect(missing('ssl', { type: 'client', cert: 'x', key: 'y' })).toEqual([])
    expect(missing('consumer', {})).toEqual(['username'])
  })

  it('is found in plugins that are on', () => {
    const plugins = (conf: object) => missing('route', { uri: '/a', plugins: { 'limit-count': conf } })
    expect(plugins({ time_window: 60 })).toEqual(['plugins/limit-count/count'])
    expect(plugins({})).toEqual(['plugins/limit-count/count', 'plugins/limit-count/time_window'])
    expect(plugins({ rules: [{}] })).toEqual([])
    expect(plugins({ _meta: { disable: true } })).toEqual([])
  })
})

describe('what is misspelt', () => {
  it('is put right as a name or as a value', () => {
    const text = '{"urii":"/a","plugins":{"key-auht":{}},"methods":["FETCH"]}'
    const after = (pointer: string, reason: string, meant: string) => JSON.parse(fixed(text, { pointer, text: reason }, meant)) as unknown
    expect(after('/urii', 'additional properties forbidden, found urii', 'uri')).toMatchObject({ uri: '/a' })
    expect(after('/plugins/key-auht', 'unknown plugin [key-auht]', 'key-auth')).toMatchObject({ plugins: { 'key-auth': {} } })
    expect(after('/methods/0', 'matches none of the enum values', 'PATCH')).toMatchObject({ methods: ['PATCH'] })
  })
})

describe('nodes that are pasted', () => {
  it('are split into host and port', () => {
    expect(['10.0.0.1:80', 'a.example', '[::1]:8080', '::1', 'unix:/run/a.sock'].map(splitPort)).toEqual([['10.0.0.1', 80], ['a.example', undefined], ['[::1]', 8080], ['::1', undefined], ['unix:/run/a.sock', undefined]])
  })
})
