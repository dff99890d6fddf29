/** How the page is laid out for this person: density, and what of the navigation is folded. Kept in the browser. */
import { useSyncExternalStore } from 'react'

export type Density = 'comfortable' | 'compact'

export interface Layout {
  density: Density
  /** Whether the navigation shows icons only. */
  isRail: boolean
  /** Names of the folded groups of the navigation. */
  folded: string[]
  /** Whether the first steps are shown; unasked, only while a gateway is new. */
  guide: 'auto' | 'open' | 'closed'
}

const STORED_AS = 'tollhouse-layout'
export const FIRST: Layout = { density: 'comfortable', isRail: false, folded: ['more'], guide: 'auto' }

/** Reads what was kept; whatever is not of this shape is replaced by the default. */
export function layoutOf(text: string | null): Layout {
  try {
    const { density, isRail, folded, guide } = JSON.parse(text ?? '{}') as Partial<Record<keyof Layout, unknown>>
    return {
      density: density === 'compact' ? 'compact' : 'comfortable',
      isRail: isRail === true,
      folded: Array.isArray(folded) ? folded.filter((name) => typeof name === 'string') : FIRST.folded,
      guide: guide === 'open' || guide === 'closed' ? guide : 'auto',
    }
  } catch {
    return FIRST
  }
}

let known: Layout | undefined
const current = () => (known ??= layoutOf(localStorage.getItem(STORED_AS)))
const watchers = new Set<() => void>()

/** Gives the page the density that was chosen; called before the first paint. */
export function applyDensity() {
  document.documentElement.dataset.density = current().density
}

function set(change: Partial<Layout>) {
  known = { ...current(), ...change }
  localStorage.setItem(STORED_AS, JSON.stringify(known))
  applyDensity()
  for (const call of watchers) call()
}

export const useLayout = () => useSyncExternalStore((call) => {
  watchers.add(call)
  return () => watchers.delete(call)
}, current)

export const setDensity = (density: Density) => set({ density })
export const setGuide = (guide: Layout['guide']) => set({ guide })
export const toggleRail = () => set({ isRail: !current().isRail })
export const toggleFold = (name: string) =>
  set({ folded: current().folded.includes(name) ? current().folded.filter((one) => one !== name) : [...current().folded, name] })
