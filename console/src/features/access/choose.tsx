/** Several of a list, chosen by name: what is chosen stands above, and a filter shortens the list. */
import { Checkbox, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWords } from '../../words/words'
import type { Named } from './queries'

/** Rows that are shown at once; a filter finds the others. */
const SHOWN = 50

export function Choose({ label, all, chosen, set }: { label: string; all: readonly Named[]; chosen: ReadonlySet<string>; set: (chosen: Set<string>) => void }) {
  const words = useWords()
  const [filter, setFilter] = useState('')
  const fits = all.filter((one) => one.name.toLowerCase().includes(filter.toLowerCase()))
  // What is chosen stays in sight.
  const shown = [...fits].sort((a, b) => Number(chosen.has(b.id)) - Number(chosen.has(a.id))).slice(0, SHOWN)
  const toggle = (id: string) => {
    const next = new Set(chosen)
    if (!next.delete(id)) next.add(id)
    set(next)
  }
  return (
    <fieldset className="part choose">
      <legend><Text span size="sm" fw={500}>{label} {chosen.size > 0 && `(${chosen.size})`}</Text></legend>
      {all.length === 0 ? <Text size="sm" c="dimmed">{words.none}</Text> : (
        <Stack gap={4}>
          {all.length > 6 && <TextInput size="xs" aria-label={`${words.filter}: ${label}`} placeholder={words.filter} value={filter} onChange={(event) => setFilter(event.currentTarget.value)} />}
          <Group gap="sm" className="choices">
            {shown.map((one) => <Checkbox key={one.id} size="xs" label={one.name || one.id} checked={chosen.has(one.id)} onChange={() => toggle(one.id)} />)}
            {fits.length > SHOWN && <Text size="xs" c="dimmed">… {fits.length - SHOWN}</Text>}
          </Group>
        </Stack>
      )}
    </fieldset>
  )
}
