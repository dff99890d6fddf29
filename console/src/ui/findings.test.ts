import { expect, test } from 'vitest'
import { isCulprit } from './findings'

const change = (path: string, at_ms: number) => ({ at_ms, name: '1-a', path, deed: 'replace', actor: null })

test.each([
  ['the same object, however long ago', { subject: 'routes/1', severity: 'warning', since_ms: 9e9, change: change('routes/1', 1) }, true],
  ['a node of the same object', { subject: 'upstreams/u 10.0.0.1:80', severity: 'warning', since_ms: 9e9, change: change('upstreams/u', 1) }, true],
  ['another object, shortly before', { subject: 'routes/1', severity: 'problem', since_ms: 60_000, change: change('upstreams/u', 50_000) }, true],
  ['another object of a like name', { subject: 'routes/10', severity: 'warning', since_ms: 60_000, change: change('routes/1', 50_000) }, false],
  ['another object, long before', { subject: 'routes/1', severity: 'problem', since_ms: 9e9, change: change('upstreams/u', 50_000) }, false],
  ['another object, and nothing fails', { subject: 'registry', severity: 'warning', since_ms: 60_000, change: change('routes/1', 50_000) }, false],
  ['nothing', { subject: 'routes/1', severity: 'problem', since_ms: 60_000, change: null }, false],
] as const)('undo is offered for a change of %s', (_, finding, expected) => {
  expect(isCulprit(finding)).toBe(expected)
})
