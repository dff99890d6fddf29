import { expect, test } from 'vitest'
import { isElsewhere } from './leave'

const move = (from: string, to: string) => isElsewhere({ current: { pathname: from }, next: { pathname: to } })

test('an address that is typed and one that is encoded are of one page', () => {
  expect(move('/registry/rules/routing/+', '/registry/rules/routing/%2B')).toBe(false)
  expect(move('/new/routes', '/objects/routes')).toBe(true)
  expect(move('/objects/routes/100%', '/objects/routes/100%')).toBe(false)
})
