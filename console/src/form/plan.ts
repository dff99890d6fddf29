/**
 * From a schema and the value that is there to the field that edits it. A plan is one level deep: what is inside is
 * planned where it is drawn, by its own value, since what applies (`if`, `oneOf`) depends on that.
 */
import { isRecord } from '../lib/record'

/** A JSON Schema, as far as those of the gateway go. */
export interface Schema {
  type?: string | string[]
  title?: string
  description?: string
  default?: unknown
  enum?: unknown[]
  const?: unknown
  properties?: Record<string, Schema>
  required?: string[]
  patternProperties?: Record<string, Schema>
  additionalProperties?: boolean | Schema
  items?: Schema | Schema[]
  maxLength?: number
  oneOf?: Schema[]
  anyOf?: Schema[]
  allOf?: Schema[]
  not?: Schema
  if?: Schema
  then?: Schema
  else?: Schema
  dependencies?: Record<string, string[] | Schema>
  encrypt_fields?: string[]
  /** Not of a schema: the list is an action, the name of a plugin with its configuration. */
  isAction?: boolean
  /** Not of a schema: the object has a member for each of some plugins. */
  isPlugins?: boolean
}

/** A member of an object. */
export interface Member { name: string; schema: Schema; isRequired: boolean; isSecret: boolean }

/** Of these groups of fields exactly one, at least one, or at most one may be there. */
export interface Group { count: 'exactly' | 'least' | 'most'; sides: string[][] }

/** Groups of more sides are combinations that nobody reads; the gateway says which is missing. */
const SIDES_MAX = 4

export type Plan =
  | { kind: 'text'; isLong: boolean }
  | { kind: 'number' | 'amount' | 'switch' | 'plugins' | 'nodes' | 'conditions' | 'action' | 'raw' }
  | { kind: 'choice' | 'flags'; choices: unknown[] }
  | { kind: 'object'; members: Member[]; groups: Group[]; rest: Schema | undefined }
  | { kind: 'list'; item: Schema }
  | { kind: 'either'; variants: Schema[]; at: number }

export { isRecord }

/** Texts from this length on get several lines. */
const LONG_TEXT = 1000

/** Lists of `[variable, operator, value]`, whose schemas say no more than that they are lists. */
const CONDITIONS = new Set(['vars', 'case', 'filter', 'match', 'include_req_body_expr', 'include_resp_body_expr'])

/** Objects of names that people choose, each with a text: what loggers write, headers, what instances say of themselves. */
const FREE_TEXTS = new Set(['log_format', 'log_format_extra', 'headers', 'metadata'])

/** JSON Schemas that people write: documents of their own, which rows would tear apart. */
const FREE_JSON = new Set(['header_schema', 'body_schema', 'response_schema'])

/** What stands in an object of which nothing is said. Lists stay text: nobody knows what is in them. */
const ANY: Schema = { anyOf: [{ type: 'string' }, { type: 'number' }, { type: 'boolean' }] }
ANY.anyOf?.push({ type: 'object', additionalProperties: ANY })

/** How a value is edited that has this schema and stands as member `name`. */
export function planOf(schema: Schema, value: unknown, name = ''): Plan {
  const types = typesOf(schema)
  if (schema.isPlugins || (name === 'plugins' && types[0] === 'object' && !schema.properties)) return { kind: 'plugins' }
  if (name === 'nodes' && schema.anyOf?.length === 2) return { kind: 'nodes' }
  if (schema.enum) return { kind: 'choice', choices: schema.enum }
  const [type] = types
  if (types.length === 1 && type !== undefined && type in BY_TYPE) return BY_TYPE[type as keyof typeof BY_TYPE](schema, value, name)
  if (types.length > 0 && types.every((it) => it === 'string' || it === 'integer' || it === 'number')) return { kind: 'amount' }
  const variants = schema.oneOf ?? schema.anyOf
  if (variants === undefined) return { kind: 'raw' }
  const at = variants.findIndex((variant) => fits(variant, value))
  return value !== undefined && at < 0 ? { kind: 'raw' } : { kind: 'either', variants, at: Math.max(at, 0) }
}

const BY_TYPE = {
  string: (schema: Schema): Plan => ({ kind: 'text', isLong: (schema.maxLength ?? 0) > LONG_TEXT * 5 }),
  integer: (): Plan => ({ kind: 'number' }),
  number: (): Plan => ({ kind: 'number' }),
  boolean: (): Plan => ({ kind: 'switch' }),
  array: (schema: Schema, value: unknown, name: string): Plan => {
    const item = Array.isArray(schema.items) ? undefined : schema.items
    if (schema.isAction) return { kind: isAction(value) ? 'action' : 'raw' }
    if (name === 'actions' && item?.type === 'array') return { kind: 'list', item: { ...item, isAction: true } }
    if (name === 'auth_plugins' && item?.type === 'object') return { kind: 'list', item: { ...item, isPlugins: true } }
    if ((CONDITIONS.has(name) && isOpen(item)) || (name === '' && item === undefined)) return conditionsPlan(item, value, name)
    if (item === undefined) return { kind: 'raw' }
    if (item.enum) return { kind: 'flags', choices: item.enum }
    return { kind: 'list', item: schema.encrypt_fields === undefined ? item : { ...item, encrypt_fields: schema.encrypt_fields } }
  },
  object: (schema: Schema, value: unknown, name: string): Plan => {
    const merged = merge(schema, value)
    const rest = Object.values(schema.patternProperties ?? {})[0]
      ?? (typeof schema.additionalProperties === 'object' ? schema.additionalProperties : undefined)
    if (merged.members.length > 0 || rest !== undefined) return { kind: 'object', ...merged, rest }
    if (FREE_JSON.has(name) || schema.additionalProperties === false) return { kind: 'raw' }
    const isTexts = value === undefined || (isRecord(value) && Object.values(value).every((it) => typeof it === 'string'))
    return { kind: 'object', ...merged, rest: FREE_TEXTS.has(name) && isTexts ? { type: 'string' } : ANY }
  },
}

/** Whether a schema says nothing of what a value is. */
const isAny = (schema: Schema | undefined) => schema === undefined || (!schema.type && !schema.properties && !schema.oneOf && !schema.anyOf)

/** Whether the schema of a list's items says no more than that they are lists, or words between them. */
const isOpen = (item: Schema | undefined) =>
  isAny(item) || (item?.anyOf ?? [item]).every((it) => (it?.type === 'array' && !Array.isArray(it.items) && isAny(it.items)) || (it?.type === 'string' && item?.anyOf !== undefined))

/** One list of conditions, or where the schema asks for lists of them, one of which has to hold, a list of those. */
function conditionsPlan(item: Schema | undefined, value: unknown, name: string): Plan {
  const isOfGroups = (item?.type === 'array' && item.items === undefined) || name === 'match'
  const areGroups = value === undefined || (Array.isArray(value) && value.every(isConditions))
  if (isOfGroups && areGroups) return { kind: 'list', item: { type: 'array' } }
  return { kind: isConditions(value) ? 'conditions' : 'raw' }
}

/** Whether a value names a plugin, or an answer, and how it is to be. */
const isAction = (value: unknown) =>
  value === undefined || (Array.isArray(value) && value.length <= 2 && (value.length === 0 || typeof value[0] === 'string') && (value.length < 2 || isRecord(value[1])))

function typesOf(schema: Schema): string[] {
  if (schema.type !== undefined) return [schema.type].flat()
  if (schema.properties) return ['object']
  const inner = (schema.oneOf ?? schema.anyOf ?? []).map((variant) => (variant.type === undefined ? [] : [variant.type].flat()))
  return inner.every((types) => types.length > 0) ? [...new Set(inner.flat())].filter((_, __, all) => !all.includes('object') && !all.includes('array')) : []
}

/** Whether a value is a list of conditions that rows can show: `[variable, operator, value]`, perhaps with `!`, joined by one word. */
export function isConditions(value: unknown): boolean {
  if (value === undefined) return true
  const isScalar = (it: unknown) => it === null || typeof it !== 'object'
  const isTerm = (it: unknown) => isScalar(it) || (Array.isArray(it) && it.every(isScalar))
  if (!Array.isArray(value)) return false
  const rows = value[0] === 'AND' || value[0] === 'OR' ? value.slice(1) : value
  return rows.every((row) => Array.isArray(row) && (row.length === 3 || (row.length === 4 && row[1] === '!'))
    && row.slice(0, -1).every((it) => typeof it === 'string') && isTerm(row.at(-1)))
}

/** The members that an object has by its schema where it holds this value: what `allOf`, `if` and `dependencies` add too. */
function merge(schema: Schema, value: unknown): { members: Member[]; groups: Group[] } {
  const members = new Map<string, Member>()
  const groups: Group[] = []
  const secrets = schema.encrypt_fields ?? []
  const visit = (part: Schema, isSure: boolean) => {
    for (const [name, inner] of Object.entries(part.properties ?? {})) {
      if (!members.has(name)) members.set(name, { name, schema: withSecrets(inner, name, secrets, isRecord(value) ? value[name] : undefined), isRequired: false, isSecret: secrets.includes(name) })
    }
    for (const name of isSure ? (part.required ?? []) : []) {
      const member = members.get(name)
      if (member) member.isRequired = true
    }
    const own = groupOf(part)
    if (own && own.sides.length > 1 && own.sides.length <= SIDES_MAX) groups.push(own)
    for (const inner of part.allOf ?? []) visit(inner, isSure)
    for (const inner of own ? [] : [...(part.oneOf ?? []), ...(part.anyOf ?? [])]) visit(inner, false)
    if (part.if) visit((holds(part.if, value) ? part.then : part.else) ?? {}, isSure)
    for (const [name, needed] of Object.entries(part.dependencies ?? {})) {
      if (!Array.isArray(needed) && isRecord(value) && name in value) visit(needed, false)
    }
  }
  visit(schema, true)
  return { members: [...members.values()], groups }
}

/**
 * Adds to a member's schema the secrets inside of it: `auth_config.private_key`, through lists. The schema of
 * `authorization` of `openfunction` has no type; the secrets are then the only fields that are known.
 */
function withSecrets(schema: Schema, name: string, secrets: string[], value: unknown): Schema {
  const own = secrets.filter((path) => path.startsWith(`${name}.`)).map((path) => path.slice(name.length + 1))
  if (own.length === 0) return schema
  if (!isAny(schema) || schema.items !== undefined || (value !== undefined && !isRecord(value))) return { ...schema, encrypt_fields: own }
  const properties = Object.fromEntries(own.map((path) => [path.split('.')[0], path.includes('.') ? {} : { type: 'string' }]))
  return { ...schema, type: 'object', properties, encrypt_fields: own }
}

/** The group that a `oneOf` or `anyOf` makes which only says what must be there. */
function groupOf(schema: Schema): Group | undefined {
  const variants = schema.oneOf ?? schema.anyOf
  if (variants === undefined || !variants.every((it) => !it.properties && !it.type && (it.required || it.not))) return undefined
  // A side without a field of its own is the one where none of them is there.
  const sides = variants.map((it) => it.required ?? []).filter((side) => side.length > 0)
  return { count: schema.oneOf === undefined ? 'least' : sides.length < variants.length ? 'most' : 'exactly', sides: others(schema) ?? sides }
}

/** The sides of `oneOf: [not anyOf …, required a, required b]`, whose first says that none is there. */
function others(schema: Schema): string[][] | undefined {
  const none = schema.oneOf?.find((it) => !it.required && it.not?.anyOf)
  return none?.not?.anyOf?.map((it) => it.required ?? [])
}

/** Whether the condition of an `if` holds: the part of JSON Schema that conditions use. */
function holds(condition: Schema, value: unknown): boolean {
  const fields = isRecord(value) ? value : {}
  if (condition.required?.some((name) => !(name in fields))) return false
  if (condition.not && holds(condition.not, value)) return false
  return Object.entries(condition.properties ?? {}).every(([name, inner]) => {
    if (!(name in fields)) return true
    if (inner.const !== undefined) return inner.const === fields[name]
    return inner.enum === undefined || inner.enum.includes(fields[name])
  })
}

/** Whether a value has the shape of a variant. */
export function fits(schema: Schema, value: unknown): boolean {
  if (schema.enum) return schema.enum.includes(value)
  const types = [schema.type ?? (schema.properties ? 'object' : [])].flat()
  if (types.length > 0 && !types.some((type) => isOfType(type, value))) return false
  if (isRecord(value)) {
    if (schema.required?.some((name) => !(name in value))) return false
    // Messages of the registry say themselves of what type they are.
    const type = schema.properties?.['@type']?.enum
    if (type !== undefined && !type.includes(value['@type'])) return false
    const isOpen = schema.additionalProperties !== false || schema.patternProperties !== undefined
    // Of two objects the one that knows the fields is meant.
    return (isOpen && !schema.properties) || Object.keys(value).every((name) => name in (schema.properties ?? {}) || schema.patternProperties !== undefined)
  }
  return types.length > 0 || schema.oneOf !== undefined || schema.anyOf !== undefined
}

function isOfType(type: string, value: unknown): boolean {
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isRecord(value)
  if (type === 'null') return value === null
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

/** The word for what a schema holds, where one of several is chosen. */
export const shapeOf = (schema: Schema): string =>
  schema.title ?? (schema.type ? [schema.type].flat().join(' or ') : schema.properties ? 'object' : 'any')

/** What a field begins with that is added: the least that its kind can be. */
export function startOf(schema: Schema, name = ''): string {
  const plan = planOf(schema, undefined, name)
  if (plan.kind === 'choice') return JSON.stringify(plan.choices[0])
  if (plan.kind === 'either') return startOf(plan.variants[0] as Schema)
  const least = { text: '""', amount: '""', number: JSON.stringify(schema.default ?? 0), switch: String(schema.default !== true) }
  if (plan.kind in least) return least[plan.kind as keyof typeof least]
  const type = typesOf(schema)[0]
  if (plan.kind === 'action') return '["return",{"code":403}]'
  return ['list', 'flags', 'conditions'].includes(plan.kind) || type === 'array' ? '[]' : type === undefined ? 'null' : '{}'
}
