/** Fields of which one side is used: the side is chosen, and its fields are shown. */
import { useId, useState } from 'react'
import { type Path, pointerOf, removeAt, setAt, textAt } from '../../lib/pointer'
import type { DrawnSide } from '../arrange'
import { useForm } from '../context'
import type { Text } from '../layers/layer'
import { planOf } from '../plan'
import { useSay } from '../texts'
import { One } from './object'

interface Props { title: Text | undefined; sides: DrawnSide[]; path: Path; fields: Record<string, unknown> }

const isUsed = (side: DrawnSide, fields: Record<string, unknown>) => side.fields.some((it) => it.member.name in fields)

/** One of several sides. The side that is left is taken out of the document; what both can hold goes along. */
export function OneOf({ title, sides, path, fields }: Props) {
  const say = useSay()
  const name = useId()
  const { change } = useForm()
  const [chosen, choose] = useState<number>()
  const used = sides.findIndex((side) => isUsed(side, fields))
  // What the text says counts, unless it says nothing.
  const at = used >= 0 && !(chosen !== undefined && isUsed(sides[chosen] as DrawnSide, fields)) ? used : (chosen ?? Math.max(used, 0))
  const side = sides[at] as DrawnSide
  const others = sides.filter((_, index) => index !== at && isUsed(sides[index] as DrawnSide, fields))
  const pick = (next: number) => {
    choose(next)
    if (sides.some((it, index) => index !== next && isUsed(it, fields))) change((text) => moved(text, path, sides, next), path)
  }
  return (
    <div className="one-of">
      <div role="radiogroup" aria-label={title && say(title) !== '' ? say(title) : sides.map((it) => say(it.title)).join(' / ')} className="pills">
        {sides.map((it, index) => (
          <label key={index} className="pill"><input type="radio" name={`${name}${pointerOf(path)}`} checked={index === at} onChange={() => pick(index)} /><span>{say(it.title)}</span></label>
        ))}
      </div>
      <div className="fields">
        {side.fields.map((one) => <One key={one.member.name} drawn={one} path={path} fields={fields} />)}
        {others.flatMap((it) => it.fields).filter((it) => it.member.name in fields).map((one) => <One key={one.member.name} drawn={one} path={path} fields={fields} />)}
      </div>
    </div>
  )
}

/** The document with the fields of one side alone: a single text becomes the first of a list, and the first of a list a single text. */
export function moved(text: string, path: Path, sides: DrawnSide[], next: number): string {
  const target = sides[next]?.fields ?? []
  const into = target.length === 1 ? target[0] : undefined
  const isList = into !== undefined && planOf(into.member.schema, undefined, into.member.name).kind === 'list'
  let made = text
  let carried: string | undefined
  for (const [index, side] of sides.entries()) {
    if (index === next) continue
    for (const { member } of side.fields) {
      const own = textAt(made, [...path, member.name])
      if (own === undefined) continue
      const value = JSON.parse(own) as unknown
      if (typeof value === 'string' && value !== '' && isList) carried = `[${own}]`
      if (Array.isArray(value) && typeof value[0] === 'string' && into !== undefined && !isList && into.member.schema.type === 'string') carried = JSON.stringify(value[0])
      made = removeAt(made, [...path, member.name])
    }
  }
  return carried === undefined || into === undefined ? made : setAt(made, [...path, into.member.name], carried)
}
