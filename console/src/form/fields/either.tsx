/** A value of one of several shapes, by the shape that is there. */
import { NativeSelect, Stack } from '@mantine/core'
import { setAt, textAt } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { useForm } from '../context'
import { Field, type FieldProps } from '../field'
import type { Shapes } from '../layers/layer'
import { isRecord, type Plan, shapeOf, startOf } from '../plan'
import { useSay } from '../texts'
import { titleOfName } from '../titles'

/** A value of one of several shapes: the one that is there is edited, and another is chosen by hand. */
export function Either({ plan, ...props }: FieldProps & { plan: Extract<Plan, { kind: 'either' }> }) {
  const words = useWords()
  const { set } = useForm()
  const { variants, at } = plan
  if (props.look?.shapes) return <Shaped plan={plan} shapes={props.look.shapes} {...props} />
  const shapes = variants.map(shapeOf)
  const variant = variants[at] ?? {}
  const schema = { ...variant, description: variant.description ?? props.schema.description, default: variant.default ?? props.schema.default }
  // Texts of several patterns are one field: the gateway says which of them fits.
  if (new Set(shapes).size < 2 || variants.every((it) => it.type === 'string')) return <Field {...props} schema={schema} />
  return (
    <Stack gap={4}>
      <Field {...props} schema={schema} />
      <NativeSelect
        size="xs" maw={280} aria-label={words.shapeOf(props.label)} value={String(at)}
        data={shapes.map((shape, index) => ({ value: String(index), label: `${words.shape}: ${titleOfName(shape)}` }))}
        onChange={(event) => set(props.path, startOf(variants[Number(event.currentTarget.value)] ?? {}))}
      />
    </Stack>
  )
}

/** A choice between shapes that have titles: what both hold goes along, and so do the siblings that must agree. */
function Shaped({ plan: { variants, at }, shapes, ...props }: FieldProps & { plan: Extract<Plan, { kind: 'either' }>; shapes: Shapes }) {
  const { path, value } = props
  const say = useSay()
  const { change } = useForm()
  const names = variants.map(shapeOf)
  const pick = (next: number) => {
    const target = variants[next] ?? {}
    const type = target.properties?.['@type']?.enum?.[0]
    const begun = type === undefined ? '{}' : JSON.stringify({ '@type': type })
    const kept = Object.keys(isRecord(value) ? value : {}).filter((name) => name !== '@type' && name in (target.properties ?? {}))
    const beside = Object.entries(shapes.of[names[next] ?? '']?.beside ?? {})
    change((text) => {
      const inner = kept.reduce((made, name) => setAt(made, [name], textAt(text, [...path, name]) as string), begun)
      return beside.reduce((made, [name, own]) => setAt(made, [...path.slice(0, -1), name], JSON.stringify(own)), setAt(text, path, inner))
    }, path)
  }
  return (
    <Stack gap="md">
      <NativeSelect className="choice" label={say(shapes.title)} value={String(at)} data={names.map((name, index) => ({ value: String(index), label: say(shapes.of[name]?.title ?? [name, name]) }))} onChange={(event) => pick(Number(event.currentTarget.value))} />
      <Field {...props} schema={variants[at] ?? {}} />
    </Stack>
  )
}
