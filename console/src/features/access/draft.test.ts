import { describe, expect, it } from 'vitest'
import { creation, draftOf, modification } from './draft'
import type { Policy } from './queries'

const stored: Policy = {
  id: 'p', name: 'readers', comment: '', action: 'ALLOW', default_strategy: false, mtime: '', functions: ['*'],
  principals: { users: [{ id: 'u', name: 'mary' }], groups: [], roles: [] },
  resources: { services: [{ id: 'hash', namespace: 'default', name: 'orders' }], namespaces: [{ id: 'default', name: 'default' }] },
  metadata: { 'gateway-objects': 'routes/a', other: 'kept' },
}

describe('a policy that is written', () => {
  it('is created with objects by name, by pattern and of the gateway', () => {
    const draft = { ...draftOf(undefined), name: 'p', users: new Set(['u']), lines: [{ kind: 'services' as const, text: 'default/orders' }, { kind: 'config_groups' as const, text: 'default/*' }, { kind: 'gateway' as const, text: 'routes/a-*' }, { kind: 'users' as const, text: ' ' }] }
    const body = creation(draft)
    expect(body.resources).toEqual({ services: [{ id: '', namespace: 'default', name: 'orders' }], config_groups: [{ id: 'default/*' }] })
    expect(body.functions).toEqual(['Describe*', 'Discover*', 'Watch*'])
    expect(body.metadata).toEqual({ 'gateway-objects': 'routes/a-*' })
  })

  it('changes nothing where nothing is edited, and else what was edited', () => {
    const same = modification(draftOf(stored), stored)
    expect([same.add_resources, same.remove_resources]).toEqual([{}, {}])
    expect([same.add_principals, same.remove_principals]).toEqual([{ users: [], groups: [], roles: [] }, { users: [], groups: [], roles: [] }])
    expect(same.metadata).toEqual(stored.metadata)
    const draft = draftOf(stored)
    const changed = modification({ ...draft, users: new Set(['v']), lines: draft.lines.filter((line) => line.kind !== 'services') }, stored)
    expect(changed.remove_resources).toEqual({ services: [{ id: 'hash', namespace: 'default', name: 'orders' }] })
    expect([changed.add_principals?.users, changed.remove_principals?.users]).toEqual([[{ id: 'v' }], [{ id: 'u' }]])
  })

  it('leaves a policy of an older console of its kind', () => {
    const old: Policy = { ...stored, action: 'ONLY_READ', functions: [] }
    const body = modification(draftOf(old), old)
    expect([body.action, 'functions' in body]).toEqual(['ONLY_READ', false])
    expect(modification({ ...draftOf(old), reach: 'change' }, old)).toMatchObject({ action: 'ALLOW', functions: ['*'] })
  })
})
