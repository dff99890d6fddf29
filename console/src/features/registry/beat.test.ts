import { expect, it } from 'vitest'
import { latenessOf } from './beat'

it('calls a heartbeat late after its interval, and an instance silent after three', () => {
  expect([0, 5, 6, 7, 15, 16].map((age) => latenessOf(age, 5))).toEqual(['good', 'good', 'good', 'late', 'late', 'silent'])
})
