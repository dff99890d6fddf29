/** How values become heights: evenly, or by their powers of ten. Pure. */

export type ScaleKind = 'linear' | 'log'

export interface Scale {
  top: number
  /** Value at the foot of the chart. */
  foot: number
  /** Height of a value between 0 (foot) and 1 (top). */
  height: (value: number) => number
  /** Values of the lines of the grid, from the top down. */
  ticks: number[]
}

/** Powers of ten that a logarithmic scale spans at most. */
const POWERS_MAX = 4

/** A round number at or above `value`. */
export function ceiling(value: number): number {
  if (value <= 1) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((step) => step * power >= value) as number) * power
}

const powerAbove = (value: number) => 10 ** Math.ceil(Math.log10(value) - 1e-9)
const powerBelow = (value: number) => 10 ** Math.floor(Math.log10(value) + 1e-9)

/** The scale of these values. A logarithmic one has no zero: what is at or below its foot lies on the foot. */
export function scaleOf(values: number[], kind: ScaleKind): Scale {
  const most = Math.max(0, ...values)
  const least = Math.min(...values.filter((value) => value > 0))
  if (kind === 'linear' || !Number.isFinite(least)) {
    const top = ceiling(most)
    return { top, foot: 0, height: (value) => Math.min(1, value / top), ticks: [top, top / 2, 0] }
  }
  const top = Math.max(powerAbove(most), powerBelow(least) * 10)
  const foot = Math.max(powerBelow(least), top / 10 ** POWERS_MAX)
  const span = Math.log10(top / foot)
  const height = (value: number) => (value <= foot ? 0 : Math.min(1, Math.log10(value / foot) / span))
  const powers = Math.round(span)
  return { top, foot, height, ticks: Array.from({ length: powers + 1 }, (_, at) => top / 10 ** at) }
}

/** The point of a line that is nearest to a place between 0 and 1. */
export const nearest = (place: number, points: number) => Math.max(0, Math.min(points - 1, Math.round(place * (points - 1))))
