/** Which seconds the charts show: so many before now, or before a moment that somebody went back to. Pure: the address holds it. */

/** Seconds that the gateway keeps: nothing older can be shown. */
const KEPT_S = 900

/** Seconds that each range spans, and that one point of a chart adds up. The widest is the one that is shown unasked. */
const SHAPES = {
  '15m': { span: KEPT_S, step: 5 },
  '5m': { span: 300, step: 2 },
  '1m': { span: 60, step: 1 },
} as const

export type Range = keyof typeof SHAPES

/** From the widest to the closest. */
const RANGES = Object.keys(SHAPES) as Range[]

const WIDEST: Range = '15m'

/** `until` is the second that the range ends with, since 1970 by the gateway's clock; without it the range ends now and goes on. */
export interface RangeSearch { range?: Range; until?: number; log?: boolean }

export const shapeOf = ({ range = WIDEST }: RangeSearch) => SHAPES[range]

/** What an address says of a range; what is no range or no moment is dropped. */
export function rangeOf(raw: Record<string, unknown>): RangeSearch {
  const range = RANGES.find((it) => it === raw.range)
  return {
    range: range === WIDEST ? undefined : range,
    log: raw.log === true || undefined,
    until: typeof raw.until === 'number' && Number.isSafeInteger(raw.until) && raw.until > 0 ? raw.until : undefined,
  }
}

/** The same range, ending within what is kept. */
function within(search: RangeSearch, now: number): RangeSearch {
  if (search.until === undefined) return search
  const until = Math.max(search.until, now - KEPT_S + shapeOf(search).span)
  return { ...search, until: until < now ? until : undefined }
}

/** The range half of its length earlier (-1) or later (1); undefined where there is nothing further. */
export function moved(search: RangeSearch, way: -1 | 1, now: number): RangeSearch | undefined {
  const at = search.until ?? now
  const { span } = shapeOf(search)
  if (way > 0 ? search.until === undefined : at <= now - KEPT_S + span) return undefined
  return within({ ...search, until: at + (way * span) / 2 }, now)
}

/** The next closer (1) or wider (-1) range that ends at the same moment; undefined where there is none. */
export function zoomed(search: RangeSearch, by: -1 | 1, now: number): RangeSearch | undefined {
  const range = RANGES[RANGES.indexOf(search.range ?? WIDEST) + by]
  return range && within({ ...search, range: range === WIDEST ? undefined : range }, now)
}
