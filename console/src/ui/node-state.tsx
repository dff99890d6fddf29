/** The state of a node as a word, a shape and a colour. */
import type { Words } from '../words/en'
import { useWords } from '../words/words'
import { StateBadge } from './states'

/** What a state of a node is called. */
export const stateWord = (words: Words, state: string) => words.nodeStates[state as keyof Words['nodeStates']] ?? state

export function NodeState({ row }: { row: { status: string; address?: string | null; is_checked?: boolean } }) {
  const words = useWords()
  if (row.address === null) return <StateBadge state="bad" label={words.nodeStates.unresolved} />
  if (row.status === 'failing') return <StateBadge state="bad" label={words.nodeStates.failing} />
  if (row.is_checked === false) return <StateBadge state="off" label={words.unchecked} />
  const state = row.status === 'healthy' ? 'good' : row.status === 'unhealthy' ? 'bad' : 'warn'
  return <StateBadge state={state} label={stateWord(words, row.status)} />
}
