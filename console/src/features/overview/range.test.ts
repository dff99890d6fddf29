// The range of the charts: what an address may say, and what moving and zooming make of it. The keys are in e2e.

import { describe, expect, test } from 'vitest'
import { moved, rangeOf, zoomed } from './range'

const NOW = 10_000

describe('the range of an address', () => {
  test('is one of three, and the widest needs no word', () => {
    expect(rangeOf({ range: '5m' })).toEqual({ range: '5m' })
    expect(rangeOf({ range: '15m' })).toEqual({})
  })

  test('is dropped where it is none', () => {
    for (const range of ['2h', '', 5, null, {}, 'constructor']) expect(rangeOf({ range })).toEqual({})
    for (const until of ['9000', -1, 0, 1.5, Number.NaN, 1e300, null]) expect(rangeOf({ until })).toEqual({})
  })
})

describe('a range that is moved', () => {
  test('goes back by half of itself, and no further than what is kept', () => {
    expect(moved({ range: '5m' }, -1, NOW)).toEqual({ range: '5m', until: NOW - 150 })
    expect(moved({ range: '5m', until: NOW - 550 }, -1, NOW)).toEqual({ range: '5m', until: NOW - 600 })
    expect(moved({ range: '5m', until: NOW - 600 }, -1, NOW)).toBeUndefined()
  })

  test('goes on with the time once it has come back to it', () => {
    expect(moved({ range: '1m', until: NOW - 90 }, 1, NOW)).toEqual({ range: '1m', until: NOW - 60 })
    expect(moved({ range: '1m', until: NOW - 30 }, 1, NOW)).toEqual({ range: '1m', until: undefined })
    expect(moved({ range: '1m' }, 1, NOW)).toBeUndefined()
  })

  test('stays where it is all that is kept', () => {
    expect(moved({}, -1, NOW)).toBeUndefined()
    expect(moved({}, 1, NOW)).toBeUndefined()
  })
})

describe('a range that is zoomed', () => {
  test('ends at the same moment', () => {
    expect(zoomed({}, 1, NOW)).toEqual({ range: '5m' })
    expect(zoomed({ range: '5m', until: NOW - 150 }, 1, NOW)).toEqual({ range: '1m', until: NOW - 150 })
    expect(zoomed({ range: '1m' }, 1, NOW)).toBeUndefined()
  })

  test('ends later where a wider one would begin before what is kept', () => {
    expect(zoomed({ range: '1m', until: NOW - 800 }, -1, NOW)).toEqual({ range: '5m', until: NOW - 600 })
    expect(zoomed({ range: '5m', until: NOW - 600 }, -1, NOW)).toEqual({ range: undefined, until: undefined })
    expect(zoomed({}, -1, NOW)).toBeUndefined()
  })
})
