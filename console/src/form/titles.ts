/** Titles, help and units of fields that no layer names: made of the schema. */
import type { Look, Text, Unit } from './layers/layer'
import type { Schema } from './plan'

/** Words that are not written in small letters. */
const CAPITALS: Record<string, string> = {
  id: 'ID', uri: 'URI', url: 'URL', http: 'HTTP', https: 'HTTPS', tcp: 'TCP', udp: 'UDP', tls: 'TLS', ssl: 'SSL', ip: 'IP', jwt: 'JWT', jwks: 'JWKS', ttl: 'TTL', ca: 'CA', grpc: 'gRPC', dns: 'DNS', api: 'API',
  ocsp: 'OCSP', sni: 'SNI', redis: 'Redis', kafka: 'Kafka', lua: 'Lua', json: 'JSON', oidc: 'OIDC', pkce: 'PKCE', ms: '(ms)', req: 'request', resp: 'response', msg: 'message', desc: 'description', addr: 'address', addrs: 'addresses', conn: 'connections', max: 'maximum', min: 'minimum', num: 'number', conf: 'settings', regex: 'pattern', func: 'function', ret: 'return',
}

/** A title of a field's name: `redis_host` is "Redis host". */
export function titleOfName(name: string): string {
  const words = name.replace(/([a-z0-9])([A-Z])/g, '$1 $2').split(/[_\-. ]+/).filter((word) => word !== '')
  const text = words.map((word) => CAPITALS[word.toLowerCase()] ?? word.toLowerCase()).join(' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** The title of a field, in both languages; one that is made of the name is English. */
export const titleOf = (name: string, look: Look | undefined): Text => look?.title ?? [titleOfName(name), titleOfName(name)]

/** The unit of a number, where its name or its description says it. */
export function unitOf(name: string, schema: Schema, look: Look | undefined): Unit | undefined {
  if (look?.unit) return look.unit
  const types = [schema.type ?? (schema.oneOf ?? schema.anyOf ?? []).flatMap((it) => it.type ?? [])].flat()
  if (!types.some((type) => type === 'integer' || type === 'number')) return undefined
  const text = schema.description ?? ''
  if (/_ms$|millis/i.test(name) || /\bmilliseconds\b/i.test(text)) return 'milliseconds'
  if (/\bseconds\b/i.test(text)) return 'seconds'
  if (/\bbytes\b/i.test(text) || /(_bytes|body_size)$/.test(name)) return 'bytes'
  return undefined
}

const STEPS: Record<'time' | 'size', [number, string][]> = {
  time: [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']],
  size: [[1024 ** 3, 'GiB'], [1024 ** 2, 'MiB'], [1024, 'KiB']],
}

/** A number in a larger unit: 90,000 ms are 1.5 min. Undefined where it would say no more. */
export function inWords(value: unknown, unit: Unit | undefined): string | undefined {
  const number = Number(value)
  if (unit === undefined || unit === 'percent' || (typeof value !== 'number' && typeof value !== 'string') || value === '' || !Number.isFinite(number)) return undefined
  const base = unit === 'milliseconds' ? number / 1000 : number
  const found = STEPS[unit === 'bytes' ? 'size' : 'time'].find(([size]) => base >= size)
  if (found === undefined || (unit === 'seconds' && found[0] === 1)) return undefined
  const shown = base / found[0]
  return `= ${Number.isInteger(shown) ? shown : shown.toFixed(1)} ${found[1]}`
}
