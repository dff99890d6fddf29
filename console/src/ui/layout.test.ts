import { expect, test } from 'vitest'
import { FIRST, layoutOf } from './layout'

test.each([null, '', '7', 'null', '{"density": "huge", "folded": "all", "guide": 5}'])('what was kept as %j is the default', (text) => {
  expect(layoutOf(text)).toEqual(FIRST)
})

test('what was chosen is read again', () => {
  const chosen = { density: 'compact', isRail: true, folded: ['shenyu'], guide: 'closed' } as const
  expect(layoutOf(JSON.stringify(chosen))).toEqual(chosen)
})
