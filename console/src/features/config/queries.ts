/** Groups, files and releases of the configuration centre, as the registry tells of them. */
import { keepPreviousData, useQuery, useQueryClient } from '@tanstack/react-query'
import { PAGE_ROWS, readAll, readPolaris } from '../../api/polaris'

export interface Tag { key: string; value: string }

export interface ConfigGroup {
  id: string
  name: string
  namespace: string
  comment: string
  fileCount: string
  owner: string
  business: string
  department: string
  metadata: Record<string, string>
  modifyTime: string
  modifyBy: string
}

export interface ConfigFile {
  id: string
  name: string
  namespace: string
  group: string
  content: string
  format: string
  comment: string
  status: 'normal' | 'betaing' | 'to-be-released'
  tags: Tag[]
  modifyTime: string
  modifyBy: string
  releaseTime: string
  encrypted: boolean
}

export interface ClientLabel { key: string; value: { type: string; value: string } }

export interface Release {
  id: string
  name: string
  content: string
  md5: string
  version: string
  active: boolean
  format: string
  releaseDescription: string
  releaseType: string
  betaLabels: ClientLabel[]
  modifyTime: string
  modifyBy: string
  createTime: string
}

export interface HistoryRow { id: string; name: string; type: string; content: string; createTime: string; createBy: string; releaseDescription: string }

export interface Watchers { total: number; watchers: { client: string; version: number }[] }

export interface FileName { namespace: string; group: string; name: string }

/** Times of the registry are texts in UTC; in seconds since 1970, and undefined where there is none. */
export function secondsOf(text: string | undefined): number | undefined {
  if (!text) return undefined
  const at = Date.parse(`${text.replace(' ', 'T')}Z`)
  return Number.isNaN(at) ? undefined : at / 1000
}

export const useGroups = (page: number, q: string | undefined) =>
  useQuery({
    queryKey: ['config-groups', page, q],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => readPolaris<{ total: number; configFileGroups?: ConfigGroup[] }>('config/v1/configfilegroups', { group: q && `*${q}*`, offset: (page - 1) * PAGE_ROWS, limit: PAGE_ROWS }, { signal }),
  })

/** The names of a group's files, without their contents. */
export const useFiles = (namespace: string, group: string) =>
  useQuery({
    queryKey: ['config-files', namespace, group],
    refetchInterval: 10_000,
    placeholderData: keepPreviousData,
    queryFn: async ({ signal }) => {
      const { list, total, isCut } = await readAll<ConfigFile>('config/v1/configfiles/by-group', 'configFiles', { namespace, group, order_field: 'name', order_type: 'asc' }, 2000, signal)
      return { total, isCut, list: list.map(({ content: _, ...rest }) => rest) }
    },
  })

export const useFile = (file: FileName) =>
  useQuery({
    queryKey: ['config-file', file.namespace, file.group, file.name],
    refetchOnWindowFocus: false,
    queryFn: ({ signal }) => readPolaris<{ configFile: ConfigFile }>('config/v1/configfiles', { ...file }, { signal }).then((it) => it.configFile),
  })

/** Releases of a file, the newest first; their contents are asked for one by one. */
export const useReleases = ({ namespace, group, name }: FileName) =>
  useQuery({
    queryKey: ['config-releases', namespace, group, name],
    refetchInterval: 10_000,
    queryFn: async ({ signal }) => {
      const { list } = await readAll<Release>('config/v1/configfiles/releases', 'configFileReleases', { namespace, group, file_name: name }, 500, signal)
      return list.sort((a, b) => Number(b.version) - Number(a.version))
    },
  })

export const useRelease = ({ namespace, group, name }: FileName, release: string | undefined) =>
  useQuery({
    queryKey: ['config-release', namespace, group, name, release],
    enabled: release !== undefined,
    queryFn: ({ signal }) => readPolaris<{ configFileRelease: Release }>('config/v1/configfiles/release', { namespace, group, file_name: name, release_name: release }, { signal }).then((it) => it.configFileRelease),
  })

export const useHistory = ({ namespace, group, name }: FileName) =>
  useQuery({
    queryKey: ['config-history', namespace, group, name],
    refetchInterval: 10_000,
    queryFn: ({ signal }) => readPolaris<{ configFileReleaseHistories?: HistoryRow[] }>('config/v1/configfiles/releasehistory', { namespace, group, name, limit: 50 }, { signal }).then((it) => it.configFileReleaseHistories ?? []),
  })

export const useWatchers = (file: FileName) =>
  useQuery({
    queryKey: ['config-watchers', file.namespace, file.group, file.name],
    refetchInterval: 3000,
    queryFn: ({ signal }) => readPolaris<Watchers>('config/v1/configfiles/watchers', { ...file }, { signal }),
  })

/** Forgets all that was read of the configuration centre. */
export function useForgetConfig() {
  const client = useQueryClient()
  return () => client.invalidateQueries({ predicate: ({ queryKey }) => String(queryKey[0]).startsWith('config-') })
}

/** Releases in force: for all clients, and for some of them. */
export function inForce(releases: Release[]): { all?: Release; gray?: Release } {
  const active = releases.filter((release) => release.active)
  return { all: active.find((release) => release.releaseType !== 'gray'), gray: active.find((release) => release.releaseType === 'gray') }
}
