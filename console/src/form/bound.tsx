import { Text } from '@mantine/core'
import { useWords } from '../words/words'

/** Rows of a list that are drawn as fields: what is longer is read and edited as text, and would hold up the page. */
const ROWS_DRAWN = 200

export const drawn = <T,>(rows: T[]): T[] => (rows.length > ROWS_DRAWN ? rows.slice(0, ROWS_DRAWN) : rows)

/** Says how many rows stand in the text alone. */
export function More({ rows }: { rows: unknown[] }) {
  const words = useWords()
  if (rows.length <= ROWS_DRAWN) return null
  return <Text size="sm" c="dimmed">{words.moreInText(rows.length - ROWS_DRAWN)}</Text>
}
