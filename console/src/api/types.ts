/** Answers of `/console/v1`. */
export interface Who {
  signed_in: boolean
  key_required: boolean
  name: string | null
  role: 'admin' | 'operator' | 'viewer' | null
  mode: 'store' | 'file' | 'away' | 'documents' | null
  reason: string | null
  /** Name of the identity provider at which people may log in. */
  openid: string | null
  build: string
}

/** What a sign-in gives, beside the cookie. */
export interface SignedIn {
  name: string
  proof: string
}

export interface Problem {
  path?: string
  message?: string
  text?: string
  hint?: string
  [other: string]: unknown
}

export interface Overview {
  version: string
  hostname: string
  id: string
  started_at: number
  source: string
  is_ready: boolean
  revision: number
  routes_in_service: number
  problem_count: number
  problems: Problem[]
  refused: Problem[]
  down: { part: string; reason: string }[]
  listeners: Record<string, string[]>
  certificates: { id: string; ends_at: number }[]
  nodes: { total: number; healthy: number; failing: number; unhealthy: number; unresolved: number }
  /** What is wrong, the worst first. */
  findings: Finding[]
  /** Answers of 500 and higher in the last 15 seconds. */
  failed_recently: number
  /** Time of plugins since the start, by name, in microseconds; some runs are timed. */
  plugin_times?: Record<string, PluginTime>
  objects: Record<string, number>
  shenyu: boolean
  registry: (Omit<Counted, 'total'> & { services: number; mass_expiries: number; instances: number }) | null
}

export interface PluginTime { timed: number; mean: number | null; p50: number | null; p99: number | null }

export interface Finding {
  severity: 'problem' | 'warning' | 'note'
  kind: string
  subject: string
  what: string
  remedy: string
  since_ms: number | null
  count: number | null
  change: { at_ms: number; name: string; path: string; deed: string; actor: string | null } | null
  requests: { route?: string; code?: string; status?: string; q?: string; command: string } | null
}

export interface Second {
  at: number
  length_ms: number
  requests: number
  classes: Record<string, number>
  failures: Record<string, number>
  /** Answers of nodes with 500 and higher, which the gateway passed on. */
  node_errors: number
  p50_ms: number | null
  p90_ms: number | null
  p99_ms: number | null
  connections: number
  received_bytes: number
  sent_bytes: number
  revision: number
}

export interface RecentRequest {
  id: string
  at_ms: number
  duration_ms: number
  upstream_ms: number | null
  status: number
  method: string
  host: string
  path: string
  route: string
  consumer: string
  client: string
  /** An attempt that no node answered has a code. */
  attempts: { node: string; status: number; code: string | null; took_ms: number }[]
  attempt_count: number
  plugin: string
  cause: string
  trace_id: string | null
  error: { code: string; origin: string; meaning: string; remedy: string } | null
}

export interface NodeRow {
  place: string
  name: string | null
  host: string
  port: number
  address: string | null
  weight: number
  status: string
  is_checked: boolean
  share_percent: number
  reason: string
  history: { since_ms: number; changes: { at_ms: number; from: string; to: string; reason: string }[] } | null
}

export interface ObjectRow {
  id: string
  revision: number
  name?: string
  desc?: string
  uri?: string
  uris?: string[]
  host?: string
  hosts?: string[]
  sni?: string
  snis?: string[]
  methods?: string[]
  status?: number
  labels?: Record<string, string>
  service_id?: string | number
  upstream_id?: string | number
  service_name?: string
  username?: string
  plugins?: string[]
  nodes?: number
  server_port?: number
  update_time?: number
  /** What the gateway has against it: it serves as it was before, or not at all. */
  problem?: string
}

export interface Explanation {
  revision?: number
  request?: { method: string; host: string; path: string; sent_path: string; remote_addr: string }
  route?: { id: string; name: string | null; uri: string; captured: Record<string, string> }
  refused?: { status?: number; code?: string; reason: string; remedy?: string }
  plugins?: { name: string; owner: string; priority: number; phases: string[]; is_unavailable: boolean; filter: string | null }[]
  upstream?: { place: string; node_count: number; nodes: { host: string; port: number; weight: number; status: string }[] }
  candidates?: { id: string; name: string | null; uri: string; host: string | null; priority: number; wins: boolean; reason: string }[]
  candidate_count?: number
}

export interface Counted {
  total: number
  healthy: number
  /** Those of the healthy ones that nothing checks. */
  unchecked: number
  unhealthy: number
  isolated: number
}

export interface RegistryService {
  namespace: string
  name: string
  instances: Counted
  mass_expiry: { since_ms: number; kept: number } | null
  business: string
  update_time: number
}

export interface RegistryInstance {
  id: string
  namespace: string
  service: string
  host: string
  port: number
  protocol: string
  version: string
  weight: number
  healthy: boolean
  isolated: boolean
  ttl_seconds: number | null
  /** The last heartbeat since the process started; `null` if none has come. */
  last_beat?: { at_ms: number; count: number } | null
  metadata: Record<string, string>
}

export const KINDS = [
  'routes', 'services', 'upstreams', 'consumers', 'consumer_groups', 'plugin_configs', 'global_rules', 'plugin_metadata', 'ssls', 'stream_routes', 'protos', 'secrets',
] as const
export type Kind = (typeof KINDS)[number]

export const isKind = (kind: string): kind is Kind => (KINDS as readonly string[]).includes(kind)

/** Where an object is seen; undefined where nowhere. What lies below another is seen with that one. */
export function pageOf(kind: string, id: string): string | undefined {
  if (!isKind(kind)) return undefined
  const [first = '', second = '', ...rest] = id.split('/')
  const own = kind === 'secrets' ? `${first}/${second}` : first
  const isBelow = kind === 'secrets' ? rest.length > 0 || second === '' : first === ''
  return isBelow ? undefined : `/objects/${kind}/${encodeURIComponent(own)}`
}

/** A place in an object that differs. */
export interface Changed { pointer: string; before?: unknown; after?: unknown }

export interface ChangeRow {
  name: string
  revision: number
  at_ms: number
  actor: string | null
  way: string
  deed: 'create' | 'replace' | 'patch' | 'delete' | 'undo'
  kind: string
  id: string
  /** Its name, or the address of an instance. */
  title?: string | null
  differences: Changed[]
  has_more: boolean
  is_cut: boolean
  undoes: string | null
}

export interface RefusedWrite { at_ms: number; actor: string | null; from: string; method: string; path: string; status: number; reason: string | null }

export interface ChangeList {
  total: number
  kept: number
  kept_max: number
  oldest_revision: number | null
  oldest_at_ms: number | null
  rows: ChangeRow[]
  refused: RefusedWrite[]
}

export interface ChangeDetail extends ChangeRow {
  before: unknown
  after: unknown
  below: string[]
  current_revision: number | null
  is_newest: boolean
  undo_refused: string | null
  /** The call, of what ShenYu's admin has done. */
  context?: string
}

export interface Place { kind: string; id: string; exists?: boolean }

export interface ObjectFacts {
  value: Record<string, unknown>
  /** Where secrets stand, as JSON pointers; the value has them sealed. */
  sealed: string[]
  revision: number
  expires_at_ms: number | null
  used_by_total: number
  used_by: Place[]
  uses: Place[]
  last_change: { revision: number; at_ms: number; actor: string | null; way: string; deed: string } | null
}

export interface PluginRow {
  name: string
  category: string
  summary: string | null
  priority: number
  phases: string[]
  serves_connections: boolean
  is_auth: boolean
  has_metadata: boolean
  secret_fields: string[]
  consumer_secret_fields: string[]
  used_by: number
}

export interface CertificateRow {
  id: string
  revision: number
  type: string
  is_off: boolean
  renews_itself: boolean
  snis: string[] | string | null
  asks_clients: boolean
  faults: string[]
  names?: string[]
  not_before?: number
  not_after?: number
  intermediates?: number
  subject?: string
  issuer?: string
  serial?: string
  fingerprint?: string
  days_left?: number
}

export interface Setting { name: string; value: string; default: string; is_default: boolean; takes: string; doc: string; variable: string }
