/** The pages of a list. */
import { Button, Group, Text, TextInput } from '@mantine/core'
import { useWords } from '../words/words'

/** Which rows of how many are shown, and the way to the others: a page has few, however many there are. */
export function Pager({ page, rows, shown, total, turn }: { page: number; rows: number; shown: number; total: number; turn: (page: number) => void }) {
  const words = useWords()
  const last = Math.max(1, Math.ceil(total / rows))
  const go = (to: number) => turn(Math.min(last, Math.max(1, to)))
  const leave = (text: string) => {
    const to = Math.floor(Number(text))
    if (to > 0 && to !== page) go(to)
  }
  return (
    <Group mt="sm" justify="space-between">
      <Text size="sm" c="dimmed">{words.shown((page - 1) * rows + 1, (page - 1) * rows + shown, total)}</Text>
      {last > 1 && <Group gap="xs">
        {last > 2 && <Button size="xs" variant="default" disabled={page <= 1} onClick={() => go(1)}>{words.firstPage}</Button>}
        <Button size="xs" variant="default" disabled={page <= 1} onClick={() => go(page - 1)}>{words.previous}</Button>
        {last > 2 && <TextInput key={page} size="xs" w={72} inputMode="numeric" aria-label={words.goToPage} defaultValue={page} onBlur={(event) => leave(event.currentTarget.value)} onKeyDown={(event) => event.key === 'Enter' && leave(event.currentTarget.value)} />}
        <Button size="xs" variant="default" disabled={page >= last} onClick={() => go(page + 1)}>{words.next}</Button>
        {last > 2 && <Button size="xs" variant="default" disabled={page >= last} onClick={() => go(last)}>{words.lastPage}</Button>}
      </Group>}
    </Group>
  )
}
