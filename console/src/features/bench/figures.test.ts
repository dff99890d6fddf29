import { describe, expect, it } from 'vitest'
import { difference, outcome, padded, percent, unlike } from './figures'
import type { Figures, Run } from './queries'

const figures = (runs: number, low: number, high: number): Figures => {
  const range = { value: (low + high) / 2, low, high }
  return { target: '', runs, goodput: range, p50: range, p99: range, mean: null, completed: 1, failed: 0, failures: {} }
}

describe('differences of measurements', () => {
  it('are told only from repeated runs that lie apart', () => {
    expect(difference('goodput', figures(3, 99, 101), figures(3, 119, 121))).toEqual({ change: expect.closeTo(0.2), verdict: 'better' })
    expect(difference('p99', figures(3, 99, 101), figures(3, 119, 121))?.verdict).toBe('worse')
    expect(difference('goodput', figures(3, 99, 120), figures(3, 119, 121))?.verdict).toBe('undecided')
    expect(difference('goodput', figures(1, 100, 100), figures(3, 119, 121))?.verdict).toBe('single')
    expect(difference('mean', figures(3, 1, 1), figures(3, 1, 1))).toBeUndefined()
  })

  it('have a sign and few digits', () => {
    expect([0.54, -0.0421, 0, 12.5, 0.0001].map(percent)).toEqual(['+54 %', '−4.2 %', '0 %', '+1250 %', '0 %'])
  })
})

it('another target is no obstacle, and is named', () => {
  const run = { url: 'http://a/', connections: 1, seconds: 2, repeat: 3, rate: null } as Run
  expect(unlike(run, { ...run, url: 'http://b/' })).toEqual({ target: true, load: false })
  expect(unlike(run, { ...run, repeat: 1, connections: 2 })).toEqual({ target: false, load: true })
})

it('lines that end earlier have gaps', () => {
  expect(padded([[1], [1, 2]])).toEqual([[1, null], [1, 2]])
})

it('a threshold is met if no repetition missed it', () => {
  const outcomes = [{ condition: 'p99 < 1s', met: 3, missed: [] }, { condition: 'goodput > 9', met: 2, missed: [['a', '8']] }]
  expect(outcome({ outcomes } as unknown as Run)).toEqual({ met: 1, all: 2 })
  expect(outcome({} as Run)).toBeUndefined()
})
