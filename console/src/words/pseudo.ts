// English that is longer and marked, to find texts that are glued together, cut off, or none of the words.
import type { Words } from './en'

/** A text with its marks, longer by two fifths. */
export const stretched = (text: string) => `⟦${text}${'~'.repeat(Math.ceil(text.length * 0.4))}⟧`

function through(value: unknown): unknown {
  if (typeof value === 'string') return value === '' ? '' : stretched(value)
  if (typeof value === 'function') return (...given: unknown[]) => through((value as (...given: unknown[]) => unknown)(...given))
  return Object.fromEntries(Object.entries(value as object).map(([name, below]) => [name, through(below)]))
}

export const pseudo = (words: Words): Words => through(words) as Words
