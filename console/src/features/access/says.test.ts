import { describe, expect, it } from 'vitest'
import { en } from '../../words/en'
import { zh } from '../../words/zh'
import type { Policy } from './queries'
import { reachOf, sentenceOf } from './says'

const policy = (part: Partial<Policy>): Policy => ({ id: '1', name: 'p', comment: '', action: 'ALLOW', default_strategy: false, mtime: '', ...part })

describe('what a policy says', () => {
  it('names people, deeds and objects', () => {
    const said = sentenceOf(policy({
      functions: ['*'],
      principals: { users: [{ id: 'u', name: 'mary' }], groups: [{ id: 'g', name: 'ops' }] },
      resources: { services: [{ id: 'default/*' }], namespaces: [{ id: 'default', name: 'default' }] },
    }), en)
    expect(said).toBe('mary and members of ops may read and change namespace default and services default/*.')
  })

  it('tells reading from changing, and forbidding from allowing', () => {
    const read = ['Describe*', 'Discover*', 'Watch*']
    expect(reachOf({ action: 'ALLOW', functions: read })).toBe('read')
    expect(reachOf({ action: 'ONLY_READ' })).toBe('read')
    expect(reachOf({ action: 'READ_WRITE' })).toBe('change')
    expect(reachOf({ action: 'ALLOW', functions: ['PublishConfigFile'] })).toBe('some')
    const denied = sentenceOf(policy({ action: 'DENY', functions: ['*'], principals: { roles: [{ id: 'r', name: 'guests' }] }, resources: { config_groups: [{ id: '*' }] } }), en)
    expect(denied).toBe('Holders of role guests may not read or change any configuration group.')
  })

  it('covers objects of the gateway, and says when it covers nothing', () => {
    expect(sentenceOf(policy({ functions: ['*'], principals: { users: [{ id: 'u', name: 'mary' }] }, metadata: { 'gateway-objects': 'routes/team-*' } }), en)).toBe('mary may read and change gateway objects routes/team-*.')
    for (const words of [en, zh]) expect(sentenceOf(policy({}), words)).not.toMatch(/undefined|\[object/)
  })
})
