/** The first route of a gateway, from the few things that are asked; and where it is reached. Pure. */

export interface Target {
  /** Who answers: the gateway itself with a fixed text, or a server. */
  kind: 'answer' | 'server'
  path: string
  /** `host:port` of the server. */
  server: string
}

/** The object to write. Paths below it go to a server as well. */
export function routeOf({ kind, path, server }: Target): object {
  const clean = `/${path.trim().replace(/^\/+/, '').replace(/\*+$/, '')}`
  if (kind === 'server') return { name: 'First route', uri: clean.endsWith('/') ? `${clean}*` : clean, upstream: { type: 'roundrobin', nodes: { [server]: 1 } } }
  return { name: 'First route', uri: clean, plugins: { mocking: { response_example: 'Hello from Tollhouse\n', content_type: 'text/plain' } } }
}

/** The address of the data plane for a path, as the browser's host is reached; undefined where it does not listen for HTTP. */
export function planeUrl(listeners: Record<string, string[]>, host: string, path: string): string | undefined {
  for (const scheme of ['http', 'https']) {
    const address = listeners[scheme]?.[0]
    if (address === undefined) continue
    return `${scheme}://${address.replace(/^(?:0\.0\.0\.0|\[::\])(?=:\d+$)/, host)}${path}`
  }
  return undefined
}
