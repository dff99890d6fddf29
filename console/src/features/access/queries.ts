/** Users, groups, roles and policies, as the registry tells of them. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { json } from '../../api/client'
import { readAll, readPolaris } from '../../api/polaris'

export interface Named { id: string; name: string }

export interface User extends Named { comment: string; source: string; token_enable: boolean; ctime: string; mtime: string; user_type: string; email: string; mobile: string }

export interface UserGroup extends Named { comment: string; token_enable: boolean; user_count: number; mtime: string; relation?: { users?: User[] } }

export interface Role extends Named { comment: string; users?: Named[]; user_groups?: Named[]; mtime: string }

export interface ResourceEntry { id: string; namespace?: string; name?: string }

export const RESOURCE_LISTS = ['namespaces', 'services', 'config_groups', 'route_rules', 'ratelimit_rules', 'circuitbreaker_rules', 'faultdetect_rules', 'lane_rules', 'users', 'user_groups', 'roles', 'auth_policies'] as const
export type ResourceList = (typeof RESOURCE_LISTS)[number]

export type Action = 'ALLOW' | 'DENY' | 'ONLY_READ' | 'READ_WRITE'

export interface Policy extends Named {
  comment: string
  action: Action
  default_strategy: boolean
  mtime: string
  principals?: { users?: Named[]; groups?: Named[]; roles?: Named[] }
  resources?: Partial<Record<ResourceList, ResourceEntry[]>>
  functions?: string[]
  metadata?: Record<string, string>
}

export interface Refused { caller: string; function: string; resource: string; code: number; count: number; first_ms: number; last_ms: number }
export type GateState = 'open' | 'rehearsed' | 'locked'
export interface Rehearsal { client: GateState; console: GateState; refused: Refused[]; dropped: number }

/** Key of a policy's metadata with patterns of objects of the gateway. */
export const GATEWAY_KEY = 'gateway-objects'

const every = (signal: AbortSignal) => ({ signal })

export const useUsers = () =>
  useQuery({ queryKey: ['access-users'], refetchInterval: 10_000, queryFn: ({ signal }) => readAll<User>('core/v1/users', 'users', { hide_admin: 'true' }, 2000, every(signal).signal) })

export const useUserGroups = () =>
  useQuery({
    queryKey: ['access-groups'],
    refetchInterval: 10_000,
    queryFn: async ({ signal }) => {
      const page = await readAll<UserGroup>('core/v1/usergroups', 'userGroups', {}, 500, signal)
      // The list tells how many members a group has, and its page who they are.
      const list = await Promise.all(page.list.map(({ id }) => readPolaris<{ userGroup: UserGroup }>('core/v1/usergroup/detail', { id }, { signal }).then((it) => it.userGroup)))
      return { ...page, list }
    },
  })

export const useRoles = () =>
  useQuery({ queryKey: ['access-roles'], refetchInterval: 10_000, queryFn: ({ signal }) => readAll<Role>('core/v1/roles', 'data', {}, 500, signal) })

export const usePolicies = () =>
  useQuery({ queryKey: ['access-policies'], refetchInterval: 10_000, queryFn: ({ signal }) => readAll<Policy>('core/v1/auth/strategies', 'authStrategies', { show_detail: 'true' }, 1000, signal) })

export const useRehearsal = () =>
  useQuery({ queryKey: ['access-rehearsal'], refetchInterval: 5000, queryFn: ({ signal }) => readPolaris<Rehearsal>('core/v1/auth/rehearsal', {}, { signal }) })

/** Names to choose resources from; of more than these the beginning is typed. */
const SUGGESTED = 500

export const useResourceNames = () =>
  useQuery({
    queryKey: ['access-names'],
    staleTime: 30_000,
    queryFn: async ({ signal }) => {
      const [namespaces, services, groups] = await Promise.all([
        json<{ list: Named[] }>(`/registry/v1/namespaces?page_size=${SUGGESTED}`, { signal }).then((it) => it.list.map((one) => one.name), () => []),
        json<{ list: { namespace: string; name: string }[] }>(`/registry/v1/services?page_size=${SUGGESTED}`, { signal }).then((it) => it.list.map((one) => `${one.namespace}/${one.name}`), () => []),
        readAll<{ namespace: string; name: string }>('config/v1/configfilegroups', 'configFileGroups', {}, SUGGESTED, signal).then((it) => it.list.map((one) => `${one.namespace}/${one.name}`), () => []),
      ])
      return { namespaces, services, config_groups: groups } as Partial<Record<ResourceList, string[]>>
    },
  })

/** Forgets all that was read of users and their rights. */
export function useForgetAccess() {
  const client = useQueryClient()
  return () => client.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[0]).startsWith('access-') })
}
