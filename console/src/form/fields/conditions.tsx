/** Conditions of three parts: variable, operator, value. Others stay text. */
import { Button, Group, NativeSelect, Stack, TextInput } from '@mantine/core'
import type { Path } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { RemoveButton } from '../field'

/** Operators of expressions, as the gateway reads them. */
const OPERATORS = ['==', '~=', '>', '>=', '<', '<=', '~~', '~*', 'in', 'has', 'ipmatch']

type Row = [string, string, unknown]

/** Conditions that all have to hold: a variable, an operator, a value. */
export function Conditions({ path, value }: { path: Path; value: unknown }) {
  const words = useWords()
  const { set } = useForm()
  const rows = (Array.isArray(value) ? value : []) as Row[]
  const add = () => (value === undefined ? set(path, '[["","==",""]]') : set([...path, rows.length], '["","==",""]'))
  return (
    <Stack gap="xs">
      {drawn(rows).map(([variable, operator, term], at) => (
        <Group key={at} gap="xs" wrap="nowrap" align="end">
          <TextInput className="grow" aria-label={words.conditionPart(at + 1, words.variable)} placeholder="arg_version" value={variable} onChange={(event) => set([...path, at, 0], JSON.stringify(event.currentTarget.value))} />
          <NativeSelect aria-label={words.conditionPart(at + 1, words.operator)} w={100} value={operator} data={[...new Set([...OPERATORS, operator])]} onChange={(event) => set([...path, at, 1], JSON.stringify(event.currentTarget.value))} />
          <TextInput className="grow" aria-label={words.conditionPart(at + 1, words.value)} value={typeof term === 'string' ? term : JSON.stringify(term)} onChange={(event) => set([...path, at, 2], termText(term, event.currentTarget.value))} />
          <RemoveButton path={[...path, at]} label={`${words.condition} ${at + 1}`} />
        </Group>
      ))}
      <More rows={rows} />
      <Button size="xs" variant="default" className="start" onClick={add}>{words.addCondition}</Button>
    </Stack>
  )
}

/** What was a text stays one; what was none stays JSON where it can be read, as the list behind `in`. */
function termText(before: unknown, typed: string): string {
  if (typeof before === 'string') return JSON.stringify(typed)
  try {
    JSON.parse(typed)
    return typed
  } catch {
    return JSON.stringify(typed)
  }
}
