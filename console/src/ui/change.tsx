/** A change as lists and dialogs show it: what was done, to what, and what differs. */
import { Anchor, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { type ChangeRow, type Changed, type Kind, pageOf } from '../api/types'
import type { Words } from '../words/en'
import { useWords } from '../words/words'
import { StateBadge } from './states'

/** What was done to an object, as a word, a shape and a colour. */
export function DeedBadge({ deed }: { deed: ChangeRow['deed'] }) {
  const words = useWords()
  const state = { create: 'good', replace: 'off', patch: 'off', delete: 'bad', undo: 'warn' } as const
  return <StateBadge state={state[deed] ?? 'off'} label={words.deeds[deed] ?? deed} />
}

/** An object by its name, with the id below where that is another, which leads to where it is seen. Ids of the
 * registry are generated, and so only a title. */
export function ObjectName({ kind, id, title }: { kind: string; id: string; title?: string | null }) {
  const page = pageOf(kind, id)
  const isGenerated = kind === 'registry' && title
  const name = title || id
  const text = page ? <Anchor component={Link} to={page} className={title ? undefined : 'mono'}>{name}</Anchor> : <span className={title ? undefined : 'mono'} title={isGenerated ? id : undefined}>{name}</span>
  return <>{text}{title && title !== id && !isGenerated && <Text size="xs" c="dimmed" className="mono">{id}</Text>}</>
}

/** What a kind of an object in a change is called: within the registry and ShenYu, it is the first part of its id. */
export function kindWord(words: Words, kind: string, id = ''): string {
  const [first = '', second = ''] = id.split('/')
  const within = kind === 'registry' && first === 'rules' ? words.ruleKinds[second as keyof Words['ruleKinds']] : kind === 'registry' || kind === 'shenyu' ? words.within[first as keyof Words['within']] : undefined
  const one = words.oneOf[kind as Kind]
  return within ?? words.elsewhere[kind as keyof Words['elsewhere']] ?? (one ? one.charAt(0).toUpperCase() + one.slice(1) : kind)
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
