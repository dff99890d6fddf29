/** The kinds of objects: all in which their screens differ. Their words stand with the others. */
import type { Kind } from '../../api/types'

/** What objects of a kind can have, beside a name and when they were changed. */
export type Column = 'methods' | 'host' | 'path' | 'plugins' | 'leadsTo' | 'state'

/** How an object gets its id: it or the gateway says one, it must say one, a field of it is one, or what it is of comes first. */
type Naming = { by: 'anybody' | 'author' } | { by: 'field'; field: string } | { by: 'keeper' } | { by: 'plugin' }

/** All that the screens have to know of a kind; its words stand with the others. */
interface KindFacts {
  naming: Naming
  /** Where its schema is, below `/apisix/admin/schema/`. */
  schema: (id: string) => string | undefined
  /** An object of the kind, for the command that an empty list shows. New objects begin with nothing. */
  example: (id: string) => object
  columns: Column[]
  /** What stands in the place of a path. */
  pathWord?: 'port' | 'address'
  /** Whether one may be deleted although others name it, who then do without. */
  isFree?: boolean
  /** A field that is text of its own kind, and is shown as that. */
  text?: string
}

const upstream = (node: string) => ({ type: 'roundrobin', nodes: { [node]: 1 } })

/** Who keeps secrets, with what each is told first. */
const KEEPER_STARTS: Record<string, object> = {
  vault: { uri: 'http://127.0.0.1:8200', prefix: 'kv/apisix', token: '' },
  aws: { access_key_id: '', secret_access_key: '', region: 'us-east-1' },
  gcp: { auth_config: { client_email: '', private_key: '', project_id: '' } },
}
export const KEEPERS = Object.keys(KEEPER_STARTS)

/** The keeper that the id of a secret begins with, or the plugin that metadata are of. */
const first = (id: string) => id.split('/')[0] as string

const PROTO = 'syntax = "proto3";\npackage orders;\n\nservice Orders {\n  rpc Get (Request) returns (Answer);\n}\n\nmessage Request { string id = 1; }\nmessage Answer { string state = 1; }\n'

export const KIND_FACTS: Record<Kind, KindFacts> = {
  routes: { naming: { by: 'anybody' }, schema: () => 'route', example: () => ({ name: 'orders', uri: '/orders/*', upstream: upstream('127.0.0.1:8080') }), columns: ['methods', 'host', 'path', 'plugins', 'leadsTo', 'state'] },
  services: { naming: { by: 'anybody' }, schema: () => 'service', example: () => ({ name: 'orders', upstream: upstream('127.0.0.1:8080') }), columns: ['host', 'plugins', 'leadsTo'] },
  upstreams: { naming: { by: 'anybody' }, schema: () => 'upstream', example: () => ({ name: 'orders', ...upstream('127.0.0.1:8080') }), columns: ['leadsTo'] },
  consumers: { naming: { by: 'field', field: 'username' }, schema: () => 'consumer', example: () => ({ username: 'partner', plugins: { 'key-auth': { key: '' } } }), columns: ['plugins'] },
  consumer_groups: { naming: { by: 'author' }, schema: () => 'consumer_group', example: () => ({ plugins: { 'limit-count': { count: 100, time_window: 60, rejected_code: 429 } } }), columns: ['plugins'] },
  plugin_configs: { naming: { by: 'author' }, schema: () => 'plugin_config', example: () => ({ plugins: { 'limit-count': { count: 100, time_window: 60, rejected_code: 429, key: 'remote_addr' } } }), columns: ['plugins'] },
  global_rules: { naming: { by: 'author' }, schema: () => 'global_rule', example: () => ({ plugins: { 'request-id': {} } }), columns: ['plugins'] },
  plugin_metadata: { naming: { by: 'plugin' }, schema: (id) => (id === '' ? undefined : `plugins/${encodeURIComponent(first(id))}?schema_type=metadata`), example: () => ({}), columns: [] },
  ssls: { naming: { by: 'anybody' }, schema: () => 'ssl', example: () => ({ snis: ['example.com'], cert: '', key: '' }), columns: ['host', 'state'], isFree: true },
  stream_routes: { naming: { by: 'anybody' }, schema: () => 'stream_route', example: () => ({ server_port: 9100, upstream: upstream('127.0.0.1:5432') }), columns: ['host', 'path', 'plugins', 'leadsTo'], pathWord: 'port' },
  protos: { naming: { by: 'anybody' }, schema: () => 'proto', example: () => ({ content: PROTO }), columns: [], text: 'content' },
  secrets: { naming: { by: 'keeper' }, schema: (id) => `secret_${first(id)}`, example: (id) => KEEPER_STARTS[first(id)] ?? {}, columns: ['path'], pathWord: 'address', isFree: true },
}

/** What a new object is of before it has an id: the first keeper where nobody says, and no plugin. */
export function scopeOf(kind: Kind, chosen: string | undefined): string {
  const { by } = KIND_FACTS[kind].naming
  if (by === 'keeper') return chosen !== undefined && KEEPERS.includes(chosen) ? chosen : (KEEPERS[0] as string)
  return by === 'plugin' ? (chosen ?? '') : ''
}

/** The command that makes a first object of a kind has to call it something. */
export function exampleOf(kind: Kind): { id: string; text: string } {
  const { naming, example } = KIND_FACTS[kind]
  const id = { anybody: 'orders', author: 'orders', field: 'partner', keeper: `${KEEPERS[0]}/orders`, plugin: 'http-logger' }[naming.by]
  return { id, text: JSON.stringify(naming.by === 'plugin' ? { log_format: { host: '$host' } } : example(id)) }
}
