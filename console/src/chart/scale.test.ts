import { describe, expect, test } from 'vitest'
import { ceiling, nearest, scaleOf } from './scale'

test.each([[0, 1], [1, 1], [1.2, 2], [199, 200], [201, 500], [999, 1000]])('the axis of %d ends at %d', (value, top) => {
  expect(ceiling(value)).toBe(top)
})

describe('a logarithmic scale', () => {
  test('shows 40 failures beside 14,000 requests', () => {
    const scale = scaleOf([14_000, 40], 'log')
    expect([scale.top, scale.foot]).toEqual([100_000, 10])
    expect(scale.height(40)).toBeGreaterThan(0.1)
    expect(scaleOf([14_000, 40], 'linear').height(40)).toBeLessThan(0.01)
  })

  test('has a line for each power of ten, and no more than five', () => {
    expect(scaleOf([3, 250], 'log').ticks).toEqual([1000, 100, 10, 1])
    expect(scaleOf([0.001, 100_000], 'log').ticks).toHaveLength(5)
  })

  test('puts nothing below its foot, and is even where there is nothing to show', () => {
    const scale = scaleOf([0, 5], 'log')
    expect(scale.height(0)).toBe(0)
    expect(scaleOf([0, 0], 'log').ticks).toEqual([1, 0.5, 0])
    expect(scaleOf([10], 'log').height(10)).toBe(0)
  })
})

test('a pointer finds the nearest point', () => {
  expect([nearest(0, 11), nearest(0.44, 11), nearest(0.46, 11), nearest(1.4, 11), nearest(0.5, 1)]).toEqual([0, 4, 5, 10, 0])
})
