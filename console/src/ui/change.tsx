/** A change as lists and dialogs show it: what was done, to what, and what differs. */
import { Anchor, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { type ChangeRow, type Changed, pageOf } from '../api/types'
import { useWords } from '../words/words'
import { StateBadge } from './states'

/** What was done to an object, as a word, a shape and a colour. */
export function DeedBadge({ deed }: { deed: ChangeRow['deed'] }) {
  const words = useWords()
  const state = { create: 'good', replace: 'off', patch: 'off', delete: 'bad', undo: 'warn' } as const
  return <StateBadge state={state[deed] ?? 'off'} label={words.deeds[deed] ?? deed} />
}

/** An object by its id, which leads to where it is seen. */
export function ObjectName({ kind, id }: { kind: string; id: string }) {
  const page = pageOf(kind, id)
  return page ? <Anchor component={Link} to={page} className="mono">{id}</Anchor> : <span className="mono">{id}</span>
}

/** Longer values are cut: the whole stands on the page of the change. */
const LETTERS = 40

const short = (value: unknown) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.length > LETTERS ? `${text.slice(0, LETTERS)}…` : text
}

/** `limit-count.count 100 → 200`, a line each. */
export function Differences({ rows, hasMore }: { rows: Changed[]; hasMore: boolean }) {
  return (
    <>
      {rows.map((row) => (
        <Text key={row.pointer} size="sm" className="mono">
          <Text span c="dimmed" inherit>{placeOf(row.pointer)}</Text> {'before' in row ? short(row.before) : '∅'} → {'after' in row ? short(row.after) : '∅'}
        </Text>
      ))}
      {hasMore && <Text size="sm" c="dimmed">…</Text>}
    </>
  )
}

/** A JSON pointer as people read it. */
const placeOf = (pointer: string) =>
  pointer.split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~')).join('.').replace(/^plugins\./, '')
