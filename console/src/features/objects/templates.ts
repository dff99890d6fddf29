import type { Kind } from '../../api/types'

/** What a new object begins with: the least that serves. */
export const TEMPLATES: Record<Kind, object> = {
  routes: { name: 'orders', uri: '/orders/*', upstream: { type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } } },
  services: { name: 'orders', upstream: { type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } } },
  upstreams: { name: 'orders', type: 'roundrobin', nodes: { '127.0.0.1:8080': 1 } },
  consumers: { username: 'partner', plugins: { 'key-auth': { key: '' } } },
  global_rules: { plugins: { 'request-id': {} } },
  plugin_configs: { plugins: { 'limit-count': { count: 100, time_window: 60, rejected_code: 429, key: 'remote_addr' } } },
  ssls: { snis: ['example.com'], cert: '', key: '' },
  stream_routes: { server_port: 9100, upstream: { type: 'roundrobin', nodes: { '127.0.0.1:5432': 1 } } },
}
