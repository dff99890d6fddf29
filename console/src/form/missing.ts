/** What an object still needs before the gateway can take it, in the words of its form. The gateway has the last word. Pure. */
import type { Layer, Text } from './layers/layer'
import { PLUGIN_LAYERS } from './layers/plugins/all'
import type { Path } from '../lib/pointer'
import { isBlank } from '../lib/record'
import { isRecord, planOf, type Schema } from './plan'
import { titleOf } from './titles'

export interface Missing { path: Path; title: Text }

/** Schemas of plugins, as far as they are known. */
export type PluginSchemas = (name: string) => Schema | undefined

/** Names in what is missing; a page has room for no more. */
const MISSING_MAX = 20

/** Whether the gateway has the object already. */
export type Age = 'new' | 'stored'

/** What is missing in a document. */
export function missingIn(schema: Schema, layer: Layer | undefined, value: unknown, plugins: PluginSchemas, age: Age = 'new'): Missing[] {
  const found: Missing[] = []
  visit(schema, withoutKept(layer, age), value, [], plugins, found)
  return found.slice(0, MISSING_MAX)
}

/** A layer that does not ask for what the gateway keeps to itself. */
const withoutKept = (layer: Layer | undefined, age: Age): Layer | undefined =>
  layer?.needs && age === 'stored' ? { ...layer, needs: layer.needs.filter((need) => !need.isOfNew) } : layer

function visit(schema: Schema, layer: Layer | undefined, value: unknown, path: Path, plugins: PluginSchemas, found: Missing[]) {
  const last = path.at(-1)
  const plan = planOf(schema, value, typeof last === 'string' ? last : '')
  if (plan.kind === 'plugins' && isRecord(value)) {
    for (const [name, conf] of Object.entries(value)) {
      const own = plugins(name)
      // What is off may be incomplete.
      if (own && !(isRecord(conf) && isRecord(conf._meta) && conf._meta.disable === true)) visit({ ...own, type: 'object' }, PLUGIN_LAYERS[name]?.layer, conf, [...path, name], plugins, found)
    }
  }
  if (plan.kind === 'list' && Array.isArray(value)) for (const [at, item] of value.entries()) if (isRecord(item)) visit(plan.item, layer, item, [...path, at], plugins, found)
  // Of several shapes the one that is there has its fields.
  if (plan.kind === 'either' && isRecord(value)) return visit(plan.variants[plan.at] ?? {}, layer, value, path, plugins, found)
  if (plan.kind !== 'object') return
  const fields = isRecord(value) ? value : {}
  const named = new Set<string>()
  const isMap = plan.rest !== undefined && plan.members.length === 0
  for (const { title, sides, when } of isMap ? [] : (layer?.needs ?? [])) {
    if (when && !when(fields)) continue
    if (sides.some((side) => side.every((name) => !isBlank(fields[name])))) continue
    // An object that was begun says itself what it needs.
    const begun = sides.flat().find((name) => isRecord(fields[name]) && Object.keys(fields[name] as object).length > 0)
    if (begun !== undefined) continue
    const at = sides.find((side) => side.some((name) => name in fields))?.find((name) => isBlank(fields[name])) ?? (sides[0]?.[0] as string)
    named.add(at)
    found.push({ path: [...path, at], title })
  }
  for (const group of plan.groups) {
    if (group.count === 'most' || (layer?.needs ?? []).some((need) => need.sides.flat().includes(group.sides[0]?.[0] as string))) continue
    if (group.sides.some((side) => side.every((name) => !isBlank(fields[name])))) continue
    const begun = group.sides.find((side) => side.some((name) => !isBlank(fields[name]))) ?? group.sides[0] ?? []
    for (const name of begun.filter((one) => isBlank(fields[one]))) {
      if (named.has(name)) continue
      named.add(name)
      found.push({ path: [...path, name], title: titleOf(name, layer?.fields[name]) })
    }
  }
  // A layer of an object whose names are free is that of each value.
  if (isMap && plan.rest !== undefined) {
    for (const [name, inner] of Object.entries(fields)) if (isRecord(inner)) visit(plan.rest, layer, inner, [...path, name], plugins, found)
  }
  for (const member of plan.members) {
    const inner = fields[member.name]
    const isText = [member.schema.type ?? 'string'].flat().includes('string')
    if (member.isRequired && !named.has(member.name) && (inner === undefined || inner === null || (inner === '' && isText))) found.push({ path: [...path, member.name], title: titleOf(member.name, layer?.fields[member.name]) })
    if (inner !== undefined) visit(member.schema, layer?.fields[member.name]?.layer, inner, [...path, member.name], plugins, found)
  }
}
