/** What a press on the head of a column makes of an order, and of the words of a filter. */
import { describe, expect, it } from 'vitest'
import { meaningsOf, without } from '../features/objects/chips'
import { nextSort } from './sort'

describe('the head of a column', () => {
  it('orders up, down, and not at all', () => {
    expect([undefined, 'name', '-name', 'uri'].map((sort) => nextSort('name', sort))).toEqual(['name', '-name', undefined, 'name'])
  })

  it('begins with the newest where that is what people want', () => {
    expect([undefined, '-changed', 'changed'].map((sort) => nextSort('changed', sort, true))).toEqual(['-changed', 'changed', undefined])
  })
})

describe('words of a filter', () => {
  it('with a meaning are told from text', () => {
    expect(meaningsOf('orders plugin:cors host: status:off 10.0.0.1:80')).toEqual(['plugin:cors', 'status:off'])
    expect(meaningsOf(undefined)).toEqual([])
  })

  it('are taken away one at a time', () => {
    expect(without('a plugin:x b plugin:x', 'plugin:x')).toBe('a b plugin:x')
    expect(without('plugin:x', 'plugin:x')).toBeUndefined()
    expect(without('a', 'plugin:x')).toBe('a')
  })
})
