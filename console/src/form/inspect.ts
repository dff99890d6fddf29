/** What tests ask of layers: whether they name only what exists, hide nothing, and speak both languages. No test is here. */
import { arrange, fieldsOf } from './arrange'
import { type Layer, type Look, namesOf, type Text } from './layers/layer'
import { planOf, type Schema } from './plan'

/** Names that a layer gives looks to, below `path`, with their paths. */
export function* named(layer: Layer, path = ''): Generator<string> {
  for (const name of new Set([...Object.keys(layer.fields), ...namesOf(layer)])) {
    yield `${path}${name}`
    const inner = layer.fields[name]?.layer
    if (inner) yield* named(inner, `${path}${name}.`)
  }
}

/** Whether a path of names leads to something, through lists too. */
export function leads(schema: Schema | undefined, path: string[]): boolean {
  const [name, ...rest] = path
  if (schema === undefined) return false
  if (name === undefined) return true
  const plan = planOf(schema, undefined)
  if (plan.kind === 'list') return leads(plan.item, path)
  if (plan.kind === 'either') return plan.variants.some((variant) => leads(variant, path))
  if (plan.kind !== 'object') return false
  // Below an object whose names are free, the path goes on in each value.
  if (plan.members.length === 0) return leads(plan.rest, path)
  return leads(plan.members.find((member) => member.name === name)?.schema, rest)
}

/** All texts of a layer. */
export function* textsOf(layer: Layer): Generator<Text> {
  const isHeadless = layer.sections.every((section) => section.title.join('') === '')
  for (const [at, section] of layer.sections.entries()) {
    // The first fields of an object inside of another need no heading of their own, and neither do lines of fields.
    if ((at > 0 && !isHeadless) || section.title.join('') !== '') yield section.title
    if (section.note) yield section.note
    for (const item of section.items) if (typeof item !== 'string') yield* [item.choice, ...item.sides.map((side) => side.title)]
  }
  for (const need of layer.needs ?? []) yield need.title
  for (const look of Object.values(layer.fields)) yield* textsOfLook(look)
}
/** All texts of a look. */
export function* textsOfLook(look: Look): Generator<Text> {
  if (look.title) yield look.title
  if (look.help) yield look.help
  if (look.all) yield look.all
  if (look.shapes) yield* [look.shapes.title, ...Object.values(look.shapes.of).map((shape) => shape.title)]
  yield* Object.values(look.choices ?? {})
  if (look.layer) yield* textsOf(look.layer)
}

/** Values that a layer titles and no schema has, and the reverse. */
export function strangers(schema: Schema | undefined, layer: Layer, path: string): string[] {
  const plan = schema && planOf(schema, undefined)
  if (plan?.kind === 'list') return strangers(plan.item, layer, path)
  if (plan?.kind === 'either') return plan.variants.flatMap((variant) => strangers(variant, layer, path))
  if (plan?.kind !== 'object') return []
  return Object.entries(layer.fields).flatMap(([name, look]) => {
    const member = plan.members.find((it) => it.name === name)?.schema
    const known = member?.enum?.map(String)
    const titled = Object.keys(look.choices ?? {})
    const unknown = known ? titled.filter((value) => !known.includes(value)) : []
    const lacking = look.choices ? (known ?? []).filter((value) => !titled.includes(value)) : []
    return [...unknown.map((value) => `${path}${name} ${value}`), ...lacking.map((value) => `${path}${name} lacks ${value}`), ...(look.layer ? strangers(member, look.layer, `${path}${name}.`) : [])]
  })
}

/** Levels below which schemas only repeat themselves. */
const DEPTH_MAX = 6

/** Fields that a form would not show: each is drawn where it is set, and all but those that depend on another also where it is not. */
export function hidden(schema: Schema, layer: Layer | undefined, path: string, depth = 0): string[] {
  const plan = planOf(schema, undefined, path.split('.').at(-1) ?? '')
  if (plan.kind === 'list') return hidden(plan.item, layer, path, depth)
  if (plan.kind === 'either') return plan.variants.flatMap((variant) => (variant.properties ? hidden(variant, layer, path, depth) : []))
  if (plan.kind !== 'object' || depth > DEPTH_MAX) return []
  return plan.members.flatMap((member) => {
    const lost = [{ [member.name]: 'x' }, {}].flatMap((value) => {
      const { sections, rest } = arrange(plan, layer, value)
      const drawn = [...sections.flatMap((section) => section.items.flatMap(fieldsOf)), ...rest].map((it) => it.member.name)
      const twice = new Set(drawn).size < drawn.length ? [`${path}: drawn twice`] : []
      const mayHide = ['id', 'create_time', 'update_time'].includes(member.name) || (layer?.fields[member.name]?.when !== undefined && !(member.name in value))
      const isOfHiddenChoice = layer?.sections.some((section) => section.items.some((item) => typeof item !== 'string' && item.when && item.sides.some((side) => side.fields.includes(member.name))))
      return [...twice, ...(drawn.includes(member.name) || mayHide || isOfHiddenChoice ? [] : [`${path}.${member.name}`])]
    })
    return [...lost, ...hidden(member.schema, layer?.fields[member.name]?.layer, `${path}.${member.name}`, depth + 1)]
  })
}
