/** The order in which the members of an object are drawn: by its layer, or without one by what is required. Pure. */
import { isBlank } from '../lib/record'
import { type Choice, type Item, type Layer, type Look, type Section, type Text } from './layers/layer'
import { isRecord, type Member, type Plan } from './plan'
import { titleOf } from './titles'

type ObjectPlan = Extract<Plan, { kind: 'object' }>

/** `isNeeded`: without it, or what may stand for it, the object is not whole. */
export interface DrawnField { member: Member; look: Look | undefined; isNeeded?: boolean }
export interface DrawnSide { title: Text; fields: DrawnField[] }
export type Drawn = DrawnField | { choice: Text | undefined; sides: DrawnSide[] }

export interface DrawnSection { title: Text; note?: Text; items: Drawn[]; isFolded: boolean; isRow: boolean }

export interface Arrangement {
  sections: DrawnSection[]
  /** Members that no section has; drawn folded, below. */
  rest: DrawnField[]
  /** Members of the value that the schema does not know. */
  unknown: string[]
}

/** Members that are the gateway's to write. */
const NOT_WRITTEN = new Set(['id', 'create_time', 'update_time'])

/** An object of so few members hides none of them. */
const FEW = 4

/** Members of an object without a layer that are shown at once, beside the required ones. */
const FIRST = 3

export const isChoice = (drawn: Drawn): drawn is Extract<Drawn, { sides: DrawnSide[] }> => 'sides' in drawn

/** The fields of what is drawn. */
export const fieldsOf = (drawn: Drawn): DrawnField[] => (isChoice(drawn) ? drawn.sides.flatMap((side) => side.fields) : [drawn])

/** Arranges the members of an object. */
export function arrange(plan: ObjectPlan, layer: Layer | undefined, value: unknown): Arrangement {
  const fields = isRecord(value) ? value : {}
  const members = new Map(plan.members.filter((member) => !NOT_WRITTEN.has(member.name) || member.isRequired).map((member) => [member.name, member]))
  const known = new Set(plan.members.map((member) => member.name))
  const unknown = plan.rest === undefined ? Object.keys(fields).filter((name) => !known.has(name) && !NOT_WRITTEN.has(name)) : []
  const placed = new Set<string>()
  const needed = new Set((layer?.needs ?? []).filter((need) => need.sides.length <= 2 && (need.when?.(fields) ?? true)).flatMap((need) => need.sides.flat()))
  const drawnOf = (name: string): DrawnField[] => {
    const member = members.get(name)
    if (member === undefined || placed.has(name)) return []
    const look = layer?.fields[name]
    // What has no meaning here is left out, unless it is set.
    if (look?.when && !look.when(fields) && (!(name in fields) || isIdle(fields[name], look))) return []
    placed.add(name)
    return [{ member, look, isNeeded: member.isRequired || needed.has(name) }]
  }
  const itemOf = (item: Item): Drawn[] => {
    if (typeof item === 'string') return drawnOf(item)
    if (item.when && !item.when(fields) && !item.sides.some((side) => side.fields.some((name) => name in fields))) return []
    const sides = item.sides.map((side) => ({ title: side.title, fields: side.fields.flatMap(drawnOf) })).filter((side) => side.fields.length > 0)
    return sides.length > 1 ? [{ choice: item.choice, sides }] : (sides[0]?.fields ?? [])
  }
  const sections = (layer?.sections ?? [withoutLayer(plan, [...members.values()], fields)]).map((section) => ({
    title: section.title, note: section.note, isFolded: section.isFolded === true, isRow: section.isRow === true, items: section.items.flatMap(itemOf),
  })).filter((section) => section.items.length > 0)
  const rest = [...members.values()].filter((member) => !placed.has(member.name) && isMeant(member.name, layer, fields)).map((member) => ({ member, look: layer?.fields[member.name] }))
  return { sections, rest, unknown }
}

/** Whether a value says nothing where its field has no meaning. */
const isIdle = (value: unknown, look: Look | undefined) => isBlank(value) || (look?.idle !== undefined && ([look.idle].flat() as unknown[]).includes(value))

const isMeant = (name: string, layer: Layer | undefined, fields: Record<string, unknown>) => {
  const look = layer?.fields[name]
  return (look?.when?.(fields) ?? true) || (name in fields && !isIdle(fields[name], look))
}

/** The first fields of an object that has no layer: required ones, groups, what is set, and the first few of the others. */
function withoutLayer(plan: ObjectPlan, members: Member[], fields: Record<string, unknown>): Section {
  const choices: Choice[] = plan.groups.filter((group) => group.count !== 'least').map((group) => ({
    choice: ['', ''], sides: group.sides.map((side) => ({ title: sideTitle(side), fields: side })),
  }))
  const grouped = new Set(choices.flatMap((choice) => choice.sides.flatMap((side) => side.fields)))
  const own = members.filter((member) => member.name !== '_meta' && !grouped.has(member.name))
  const first = own.filter((member) => member.isRequired || member.name in fields)
  const further = own.filter((member) => !first.includes(member))
  const room = own.length <= FEW ? further.length : Math.max(FIRST - first.length - choices.length, 0)
  const chosen = new Set([...first, ...further.slice(0, room)])
  const items = [...own.filter((member) => member.isRequired && chosen.has(member)).map((member) => member.name), ...choices, ...own.filter((member) => !member.isRequired && chosen.has(member)).map((member) => member.name)]
  return { title: ['', ''], items }
}

function sideTitle(names: string[]): Text {
  const titles = names.map((name) => titleOf(name, undefined)[0])
  const text = titles.join(' + ')
  return [text, text]
}
