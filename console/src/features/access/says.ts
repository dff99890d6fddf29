/** What a policy says, in a sentence: who may do what with which objects. */
import type { Words } from '../../words/en'
import { GATEWAY_KEY, type Policy, RESOURCE_LISTS, type ResourceEntry, type ResourceList } from './queries'

/** What a policy allows or forbids, as people choose it; `some` where it names single calls. */
export type Reach = 'read' | 'change' | 'some'

const READS = ['Describe*', 'Discover*', 'Watch*']

export const FUNCTIONS: Record<Exclude<Reach, 'some'>, string[]> = { read: READS, change: ['*'] }

export function reachOf(policy: Pick<Policy, 'action' | 'functions'>): Reach {
  const functions = policy.functions ?? []
  if (functions.length === 0) return policy.action === 'ONLY_READ' ? 'read' : policy.action === 'ALLOW' ? 'some' : 'change'
  if (functions.includes('*')) return 'change'
  return functions.length === READS.length && READS.every((one) => functions.includes(one)) ? 'read' : 'some'
}

/** A resource as people read it: `namespace/name`, or its pattern. */
export function nameOfResource(list: ResourceList, entry: ResourceEntry): string {
  const { id, namespace, name } = entry
  if (id.includes('*') || id.includes('/')) return id
  if ((list === 'services' || list === 'config_groups') && namespace && name) return `${namespace}/${name}`
  return name || id
}

/** The objects of the gateway that a policy names. */
export const gatewayOf = (policy: Pick<Policy, 'metadata'>) => (policy.metadata?.[GATEWAY_KEY] ?? '').split(',').map((text) => text.trim()).filter((text) => text !== '')

/** The sentence; calls that a policy names one by one are listed. */
export function sentenceOf(policy: Policy, words: Words): string {
  const say = words.access
  const { users = [], groups = [], roles = [] } = policy.principals ?? {}
  const who = say.who([...users.map((one) => one.name || one.id), ...groups.map((one) => say.membersOf(one.name || one.id)), ...roles.map((one) => say.holdersOf(one.name || one.id))])
  const objects = RESOURCE_LISTS.flatMap((list) => {
    const entries = policy.resources?.[list] ?? []
    if (entries.length === 0) return []
    return [entries.some((entry) => entry.id === '*') ? say.every[list] : say.some[list](entries.map((entry) => nameOfResource(list, entry)))]
  })
  const gateway = gatewayOf(policy)
  if (gateway.length > 0) objects.push(gateway.includes('*') ? say.everyGateway : say.someGateway(gateway))
  const reach = reachOf(policy)
  const isDenied = policy.action === 'DENY'
  const deed = reach === 'some' ? say.call(policy.functions ?? []) : (isDenied ? say.deniedDeeds : say.deeds)[reach]
  if (objects.length === 0) return say.saysNothing(who)
  return (isDenied ? say.mayNot : say.may)(who, deed, say.and(objects))
}
