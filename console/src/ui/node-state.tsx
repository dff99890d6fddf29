/** The state of a node as a word, a shape and a colour. */
import type { Words } from '../words/en'
import { useWords } from '../words/words'
import { StateBadge } from './states'

/** What a state of a node is called. */
export const stateWord = (words: Words, state: string) => words.nodeStates[state as keyof Words['nodeStates']] ?? state

export interface StatedNode { status: string; address?: string | null; is_checked?: boolean }

/** The one word for the state of a node: what it lacks comes first, then what it does, then what is known of it. */
export const stateOf = ({ status, address, is_checked }: StatedNode): string => (address === null ? 'unresolved' : status === 'failing' ? 'failing' : is_checked === false ? 'unchecked' : status)

const COLOURS: Record<string, 'good' | 'bad' | 'off'> = { healthy: 'good', unhealthy: 'bad', unresolved: 'bad', failing: 'bad', unchecked: 'off' }

export const nodeWord = (words: Words, state: string) => (state === 'unchecked' ? words.unchecked : stateWord(words, state))

export function NodeState({ row }: { row: StatedNode }) {
  const words = useWords()
  const state = stateOf(row)
  return <StateBadge state={COLOURS[state] ?? 'warn'} label={nodeWord(words, state)} />
}
