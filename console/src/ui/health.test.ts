import { expect, test } from 'vitest'
import { healthOf } from './health'

test.each([
  [[], 0, 'good'],
  [['note'], 0, 'good'],
  [[], 1, 'warn'],
  [['warning'], 0, 'warn'],
  [['warning', 'problem'], 0, 'bad'],
] as const)('findings %j with %i failed requests are %s', (severities, failures, state) => {
  expect(healthOf(severities.map((severity) => ({ severity })), failures).state).toBe(state)
})
