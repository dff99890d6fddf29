/** A policy while it is written, and the calls that make the stored one like it. */
import { FUNCTIONS, gatewayOf, nameOfResource, type Reach, reachOf } from './says'
import { type Action, GATEWAY_KEY, type Policy, RESOURCE_LISTS, type ResourceEntry, type ResourceList } from './queries'

export type ObjectKind = ResourceList | 'gateway'

/** One line of what a policy covers; `id` is what a stored line had. */
export interface Line { kind: ObjectKind; text: string; stored?: ResourceEntry }

export interface Draft {
  name: string
  comment: string
  action: 'ALLOW' | 'DENY'
  reach: Reach
  functions: string
  users: Set<string>
  groups: Set<string>
  roles: Set<string>
  lines: Line[]
}

const ids = (list: { id: string }[] | undefined) => new Set((list ?? []).map((one) => one.id))

export function draftOf(policy: Policy | undefined): Draft {
  const principals = policy?.principals
  const lines: Line[] = RESOURCE_LISTS.flatMap((kind) => (policy?.resources?.[kind] ?? []).map((stored): Line => ({ kind, text: nameOfResource(kind, stored), stored })))
  lines.push(...gatewayOf({ metadata: policy?.metadata }).map((text): Line => ({ kind: 'gateway', text })))
  return {
    name: policy?.name ?? '',
    comment: policy?.comment ?? '',
    action: policy?.action === 'DENY' ? 'DENY' : 'ALLOW',
    reach: policy ? reachOf(policy) : 'read',
    functions: (policy?.functions ?? []).join(', '),
    users: ids(principals?.users),
    groups: ids(principals?.groups),
    roles: ids(principals?.roles),
    lines: lines.length > 0 ? lines : [{ kind: 'namespaces', text: '' }],
  }
}

export const functionsOf = (draft: Draft) => (draft.reach === 'some' ? draft.functions.split(/[\s,]+/).filter((name) => name !== '') : FUNCTIONS[draft.reach])

const listOf = (set: Set<string>) => [...set].map((id) => ({ id }))

const entriesOf = (lines: readonly Line[]) => {
  const lists: Partial<Record<ResourceList, ResourceEntry[]>> = {}
  for (const { kind, text, stored } of lines) {
    if (kind === 'gateway' || text.trim() === '') continue
    // A stored line that says what it said keeps its id.
    const isKept = stored !== undefined && nameOfResource(kind, stored) === text
    const [namespace, ...rest] = text.trim().split('/')
    const isNamed = (kind === 'services' || kind === 'config_groups') && rest.length > 0 && !text.includes('*')
    const entry: ResourceEntry = isKept ? stored : isNamed ? { id: '', namespace, name: rest.join('/') } : { id: text.trim() }
    ;(lists[kind] ??= []).push(entry)
  }
  return lists
}

const metadataOf = (draft: Draft, before: Record<string, string> | undefined) => {
  const gateway = draft.lines.filter((line) => line.kind === 'gateway' && line.text.trim() !== '').map((line) => line.text.trim())
  return { ...before, [GATEWAY_KEY]: gateway.join(',') }
}

/** The body that creates the policy. */
export function creation(draft: Draft) {
  const { name, comment, action } = draft
  const gateway = metadataOf(draft, undefined)
  return {
    name, comment, action,
    principals: { users: listOf(draft.users), groups: listOf(draft.groups), roles: listOf(draft.roles) },
    resources: entriesOf(draft.lines),
    functions: functionsOf(draft),
    metadata: gateway[GATEWAY_KEY] === '' ? {} : gateway,
  }
}

/** The body that makes a stored policy like the draft: what is added and what is taken away. */
export function modification(draft: Draft, policy: Policy) {
  const before = draftOf(policy)
  const added = (now: Set<string>, then: Set<string>) => listOf(new Set([...now].filter((id) => !then.has(id))))
  const same = (a: Line, b: Line) => a.kind === b.kind && a.text === b.text
  const people = (now: Draft, then: Draft) => ({ users: added(now.users, then.users), groups: added(now.groups, then.groups), roles: added(now.roles, then.roles) })
  // Policies of older consoles name no calls, and keep their kind unless something else is chosen.
  const isOld = (policy.functions ?? []).length === 0 && draft.reach === before.reach && draft.action === before.action
  const action: Action = isOld ? policy.action : draft.action
  return {
    id: policy.id, name: draft.name, comment: draft.comment, action,
    ...(policy.default_strategy ? {} : { add_principals: people(draft, before), remove_principals: people(before, draft) }),
    add_resources: entriesOf(draft.lines.filter((line) => !before.lines.some((one) => same(one, line)))),
    remove_resources: entriesOf(before.lines.filter((line) => !draft.lines.some((one) => same(one, line)))),
    ...(isOld ? {} : { functions: functionsOf(draft) }),
    metadata: metadataOf(draft, policy.metadata),
  }
}
