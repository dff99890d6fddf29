import { expect, test } from 'vitest'
import { router } from '../routes'
import { placeAt, placesOf } from './places'

const places = placesOf(router)

test('every key and every address belongs to one screen', () => {
  const keys = places.flatMap(({ key }) => key ?? [])
  expect(keys.join(' ')).toBe('o q x n r s u c p t b h ,')
  expect(new Set(keys).size).toBe(keys.length)
  expect(new Set(places.map(({ to }) => to)).size).toBe(places.length)
})

test.each([
  ['/', '/'],
  ['/requests', '/requests'],
  ['/objects/plugin_configs/1/edit', '/objects/plugin_configs'],
  ['/registry/prod/orders', '/registry'],
  ['/registry/rules/routing/1', '/registry/rules'],
  ['/new/routes', undefined],
])('the address %s is within %s', (path, to) => {
  expect(placeAt(places, path)?.to).toBe(to)
})
