/** Names of all sorts as parts of an address, there and back. */
import { describe, expect, it } from 'vitest'
import { nameOf, segmentOf } from './segment'

describe('names in addresses', () => {
  const names = ['orders', 'a/b', '../../../x', '..', '.', '...', 'a%2fb', '%2e%2e', 'x#y?z=1&w', '区域 订单', 'ключ', '~2f', '~', 'a~b', '+', ' ', '', '"<b>', 'a\\b', 'é\u0301', '😀/😀', 'v1.2_x-y']

  it('are read back as they were', () => {
    for (const name of names) expect(nameOf(segmentOf(name)), name).toBe(name)
  })

  it('are one part of a path, which no browser takes for a way', () => {
    for (const name of names) {
      const url = new URL(`http://host/ui/registry/${segmentOf(name)}/end`)
      expect([url.pathname.split('/').length, url.pathname.startsWith('/ui/registry/'), url.search, url.hash], name).toEqual([5, true, '', ''])
      expect(nameOf(decodeURIComponent(url.pathname.split('/')[3] as string)), name).toBe(name)
    }
  })

  it('stay readable where they can', () => {
    expect(segmentOf('orders-v1.2_x')).toBe('orders-v1.2_x')
    expect(segmentOf('订单')).toBe('订单')
    expect(segmentOf('a/b')).toBe('a~2fb')
  })

  it('that were not written here are taken as they stand', () => {
    for (const segment of ['a~zz', '~ff', 'a/b', '~2']) expect(nameOf(segment), segment).toBe(segment)
  })
})
