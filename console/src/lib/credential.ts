/** A new credential of each plugin, and the command that tries it. Nothing is written here. */
import { quoted } from './curl'
import { newSecret } from './secret'

/** Plugins by which a consumer is recognised and for which the page makes what it is recognised by. */
export const CREDENTIAL_PLUGINS = ['key-auth', 'basic-auth', 'jwt-auth', 'hmac-auth'] as const
export type CredentialPlugin = (typeof CREDENTIAL_PLUGINS)[number]

/** What a plugin wants to know of a credential, and which of it is secret. */
export interface Made { conf: Record<string, string>; secret: string }

/** Makes one for a consumer; `name` is what the caller is known by where the plugin asks for a name. */
export function makeCredential(plugin: CredentialPlugin, name: string): Made {
  const secret = newSecret()
  switch (plugin) {
    case 'key-auth': return { conf: { key: secret }, secret: 'key' }
    case 'basic-auth': return { conf: { username: name, password: secret }, secret: 'password' }
    case 'jwt-auth': return { conf: { key: name, secret }, secret: 'secret' }
    case 'hmac-auth': return { conf: { key_id: name, secret_key: secret }, secret: 'secret_key' }
  }
}

/** Where a request goes that shows the credential: an address of the data plane, and the host that the route asks for. */
export interface Target { url: string; host?: string; header?: string }

/** The line of curl that shows it; undefined where a client has to sign each request. */
export function credentialCurl(plugin: CredentialPlugin, conf: Record<string, string>, { url, host, header = 'apikey' }: Target): string | undefined {
  const shown = plugin === 'key-auth' ? `-H ${quoted(`${header}: ${conf.key}`)}` : plugin === 'basic-auth' ? `-u ${quoted(`${conf.username}:${conf.password}`)}` : undefined
  if (shown === undefined) return undefined
  return ['curl', shown, host && `-H ${quoted(`Host: ${host}`)}`, quoted(url)].filter(Boolean).join(' ')
}

/** An address of a route that has the plugin, below where the data plane listens; wildcards are filled in. */
export function targetOf(route: Record<string, unknown> | undefined, plane: string): Target {
  const first = (one: unknown, many: unknown) => (typeof one === 'string' ? one : Array.isArray(many) ? String(many[0] ?? '') : '')
  const path = first(route?.uri, route?.uris).replace('*', 'x')
  const host = first(route?.host, route?.hosts).replace('*', 'x')
  const confs = route?.plugins as Record<string, { header?: unknown } | undefined> | undefined
  const header = confs?.['key-auth']?.header
  return { url: `http://${plane}${path || '/'}`, ...(host ? { host } : {}), ...(typeof header === 'string' ? { header } : {}) }
}

/** Where the data plane is asked from this page: a listener for all addresses is asked at the host of the page. */
export const planeOf = (listener: string | undefined, hostname: string) => {
  const port = listener?.split(':').at(-1) ?? '9080'
  const own = listener?.slice(0, -port.length - 1) ?? '0.0.0.0'
  return `${own === '0.0.0.0' || own === '[::]' || own === '' ? hostname : own}:${port}`
}
