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

/** Relative; the exact time is its title. */
export function Time({ at }: { at: number | undefined }) {
  const { language } = useLanguage()
  if (!at) return <span>–</span>
  const exact = new Date(at * 1000)
  return <time dateTime={exact.toISOString()} title={exact.toLocaleString(language)}>{relative(at, language)}</time>
}

/** The time of the day, with milliseconds. */
export function clock(unixMs: number): string {
  const date = new Date(unixMs)
  const two = (value: number) => String(value).padStart(2, '0')
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${String(date.getMilliseconds()).padStart(3, '0')}`
}
