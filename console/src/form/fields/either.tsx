/** A value of one of several shapes, by the shape that is there. */
import { NativeSelect, Stack } from '@mantine/core'
import { useWords } from '../../words/words'
import { useForm } from '../context'
import { Field, type FieldProps } from '../field'
import { type Plan, shapeOf, startOf } from '../plan'
import { titleOfName } from '../titles'

/** A value of one of several shapes: the one that is there is edited, and another is chosen by hand. */
export function Either({ plan, ...props }: FieldProps & { plan: Extract<Plan, { kind: 'either' }> }) {
  const words = useWords()
  const { set } = useForm()
  const { variants, at } = plan
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
