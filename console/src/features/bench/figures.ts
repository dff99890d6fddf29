/** Differences between measurements, and whether they are more than chance. No markup is here. */
import type { Figures, Range, Run } from './queries'

/** Figures that measurements are compared by. */
export const COMPARED = ['goodput', 'p50', 'p99', 'mean'] as const
export type Compared = (typeof COMPARED)[number]

/** Measurements that fit beside each other. */
export const COMPARED_MAX = 4

/** Repetitions from which ranges can be compared, as in the reports of the load generator. */
export const RUNS_MIN = 3

export type Verdict = 'better' | 'worse' | 'undecided' | 'single'

/** The first measurement's value against that of another: the relative change, and what it means. */
export function difference(figure: Compared, before: Figures, after: Figures): { change: number; verdict: Verdict } | undefined {
  const [one, other] = [before[figure], after[figure]]
  if (!one || !other || one.value === 0) return undefined
  const change = other.value / one.value - 1
  if (Math.min(before.runs, after.runs) < RUNS_MIN) return { change, verdict: 'single' }
  if (touch(one, other)) return { change, verdict: 'undecided' }
  const isMore = other.value > one.value
  return { change, verdict: isMore === (figure === 'goodput') ? 'better' : 'worse' }
}

const touch = (one: Range, other: Range) => one.low <= other.high && other.low <= one.high

/** A change in percent with its sign, such as +54 % or −4.2 %. */
export function percent(change: number): string {
  const size = Math.abs(change) * 100
  const text = size < 0.05 ? '0' : size < 9.95 ? size.toFixed(1) : String(Math.round(size))
  return `${text === '0' ? '' : change < 0 ? '−' : '+'}${text} %`
}

/** A number with three digits, as people write it. */
export const short = (value: number, language: string) =>
  new Intl.NumberFormat(language, value >= 1000 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 }).format(value)

/** Whether two measurements had another target or another load. */
export function unlike(before: Run, after: Run): { target: boolean; load: boolean } {
  const load = (run: Run) => [run.connections, run.seconds, run.rate].join()
  return { target: before.url !== after.url, load: load(before) !== load(after) }
}

/** Lines of equal length: those that end earlier have gaps. */
export function padded(lines: (number | null)[][]): (number | null)[][] {
  const length = Math.max(0, ...lines.map((line) => line.length))
  return lines.map((line) => [...line, ...Array<null>(length - line.length).fill(null)])
}

/** The number of thresholds that were met, and of all; undefined without any. */
export function outcome(run: Run): { met: number; all: number } | undefined {
  const all = run.outcomes?.length ?? 0
  return all === 0 ? undefined : { met: run.outcomes?.filter((it) => it.missed.length === 0).length ?? 0, all }
}
