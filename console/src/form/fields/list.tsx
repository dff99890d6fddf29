/** The items of a list, one field each. */
import { Button, Stack } from '@mantine/core'
import type { Path } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { Field } from '../field'
import { type Schema, startOf } from '../plan'

/** Items of one kind, in their order. */
export function ItemList({ path, item, value, label }: { path: Path; item: Schema; value: unknown; label: string }) {
  const words = useWords()
  const { set } = useForm()
  const items = Array.isArray(value) ? (value as unknown[]) : []
  const add = () => (value === undefined ? set(path, `[${startOf(item)}]`) : set([...path, items.length], startOf(item)))
  // What an item is stands over the list; beside each it would only repeat.
  const own = { ...item, description: undefined }
  return (
    <Stack gap="xs" align="stretch">
      {drawn(items).map((one, at) => (
        <Field key={at} path={[...path, at]} schema={own} value={one} label={`${label} ${at + 1}`} canRemove isBare />
      ))}
      <More rows={items} />
      <Button size="xs" variant="default" onClick={add} aria-label={words.addTo(label)} className="start">{words.add}</Button>
    </Stack>
  )
}
