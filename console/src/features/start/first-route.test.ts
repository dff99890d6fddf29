import { expect, test } from 'vitest'
import { planeUrl, routeOf } from './first-route'

test('the first route answers by itself, or leads to a server', () => {
  expect(routeOf({ kind: 'answer', path: 'hello', server: '' })).toMatchObject({ uri: '/hello', plugins: { mocking: {} } })
  expect(routeOf({ kind: 'server', path: '/api/*', server: '10.0.0.1:80' })).toMatchObject({ uri: '/api/*', upstream: { nodes: { '10.0.0.1:80': 1 } } })
})

test.each([
  [{ http: ['127.0.0.1:9080'] }, 'http://127.0.0.1:9080/hello'],
  [{ http: ['0.0.0.0:9080'] }, 'http://gw.example:9080/hello'],
  [{ http: ['[::]:80'] }, 'http://gw.example:80/hello'],
  [{ http: [], https: ['0.0.0.0:9443'] }, 'https://gw.example:9443/hello'],
  [{ admin: ['127.0.0.1:9180'] }, undefined],
])('listeners %j are reached at %s', (listeners: Record<string, string[]>, url) => {
  expect(planeUrl(listeners, 'gw.example', '/hello')).toBe(url)
})
