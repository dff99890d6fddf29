/** What narrows a list beside free text: each word with a meaning as a chip that takes itself away, and the two filters that
 * people reach for most. The address has all of it; nothing is kept here. */
import { Button } from '@mantine/core'
import type { ObjectSearch } from '../../routes'
import { useWords } from '../../words/words'

/** Words of the filter box that are more than text. */
const MEANINGS = /^(?:host|label|plugin|uses|status):./

/** The words of a filter, and those of them that have a meaning. */
export const meaningsOf = (q: string | undefined) => (q ?? '').split(/\s+/).filter((word) => MEANINGS.test(word))

/** A filter without one of its words; nothing where that was all. */
export function without(q: string | undefined, word: string): string | undefined {
  const words = (q ?? '').split(/\s+/).filter((one) => one !== '')
  const at = words.indexOf(word)
  return words.filter((_, place) => place !== at).join(' ') || undefined
}

export function Chips({ search, set, hasState }: { search: ObjectSearch; set: (change: Partial<ObjectSearch>) => void; hasState: boolean }) {
  const words = useWords()
  const { q, problem } = search
  const chosen = meaningsOf(q)
  const isOff = chosen.includes('status:off')
  const toggle = (label: string, isOn: boolean, turn: () => void) => (
    <Button size="compact-xs" variant={isOn ? 'filled' : 'default'} aria-pressed={isOn} onClick={turn}>{label}</Button>
  )
  return (
    <div className="chips" role="group" aria-label={words.filter}>
      {hasState && toggle(words.switchedOff, isOff, () => set({ q: isOff ? without(q, 'status:off') : [q, 'status:off'].filter(Boolean).join(' ') }))}
      {toggle(words.withProblem, problem === true, () => set({ problem: problem ? undefined : true }))}
      {chosen.filter((word) => word !== 'status:off').map((word) => (
        <Button key={word} size="compact-xs" variant="light" aria-label={words.removeFilter(word)} onClick={() => set({ q: without(q, word) })}><span className="mono">{word} ✕</span></Button>
      ))}
    </div>
  )
}
