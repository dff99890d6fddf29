/** Points in time, as people read them and exactly. */
import { useSyncExternalStore } from 'react'
import { useLanguage } from '../words/words'

const STEPS: [Intl.RelativeTimeFormatUnit, number][] = [
  ['year', 31_536_000], ['month', 2_592_000], ['day', 86_400], ['hour', 3600], ['minute', 60], ['second', 1],
]

/** A time as people say it. */
export function relative(unixS: number, language: string, now = Date.now() / 1000): string {
  const distance = unixS - now
  const [unit, length] = STEPS.find(([, seconds]) => Math.abs(distance) >= seconds) ?? ['second', 1]
  return new Intl.RelativeTimeFormat(language, { numeric: 'auto' }).format(Math.round(distance / length), unit)
}

/** How often times that are told as people say them are told anew, in milliseconds. */
const TICK_MS = 5000

const watchers = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined
let now = Date.now()

const tick = () => {
  now = Date.now()
  for (const call of watchers) call()
}

/** One clock for all times of the page; it stands still while the page shows none. */
function watch(call: () => void) {
  watchers.add(call)
  timer ??= setInterval(tick, TICK_MS)
  return () => {
    watchers.delete(call)
    if (watchers.size > 0) return
    clearInterval(timer)
    timer = undefined
  }
}

/**
 * Relative, and always what it is by now; the exact time is its title, and is shown where the row or link that it is in has the focus.
 * One that `stands` alone takes the focus itself.
 */
export function Time({ at, stands }: { at: number | undefined; stands?: boolean }) {
  const { language } = useLanguage()
  useSyncExternalStore(watch, () => now)
  if (!at) return <span>–</span>
  const exact = new Date(at * 1000)
  const text = exact.toLocaleString(language)
  return <time dateTime={exact.toISOString()} title={text} data-exact={text} tabIndex={stands ? 0 : undefined}>{relative(at, language)}</time>
}

/** The time of the day, with milliseconds. */
export function clock(unixMs: number): string {
  const date = new Date(unixMs)
  const two = (value: number) => String(value).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`
}
