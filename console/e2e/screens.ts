/** The screens that tests of all screens walk through. No test is here. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from '@playwright/test'
import { certificate } from './certificate'
import { expect, type Gateway } from './gateway'

/** Paths of the rows of `routes.tsx`, the one list of screens, such as `/objects/$kind`. */
const ROWS = [...readFileSync(join(import.meta.dirname, '../src/routes.tsx'), 'utf8').matchAll(/^  path: '([^']+)',$/gm)].map(([, path]) => path as string)

/** Addresses of the screens that need nothing besides their address. */
export const plainScreens = () => ROWS.filter((path) => !path.includes('$')).map((path) => `/ui${path}`)

/** Rows that none of these addresses opens. */
const unopened = (addresses: string[]) =>
  ROWS.filter((row) => !addresses.some((address) => new RegExp(`^/ui${row.replace(/\$\w+/g, '[^/]+')}$`).test(address.replace(/\?.*$/, ''))))

/** Measures for a second, and gives the id of the measurement. */
async function measure(gateway: Gateway): Promise<string> {
  const plan = { url: `${gateway.plane}/any-measured`, name: 'any', connections: 1, seconds: 1, repeat: 1, thresholds: ['failure_rate < 1%'] }
  const { id } = await (await gateway.call('POST', '/console/v1/bench/runs', plan)).json()
  await expect.poll(async () => (await (await gateway.call('GET', `/console/v1/bench/runs/${id}`)).json()).end, { timeout: 60_000 }).toBe('done')
  return id
}

/** Fills a gateway with one of everything, and names every screen that it then has. Names of objects begin with `any`. */
export async function everyScreen(gateway: Gateway): Promise<string[]> {
  const put = async (path: string, value: object) => {
    const answer = await gateway.call('PUT', `/apisix/admin/${path}`, value)
    if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  }
  const upstream = { nodes: { [gateway.origin]: 1, '127.0.0.1:1': 1 } }
  await put('upstreams/any-up', { name: 'any-up', ...upstream, checks: { active: { type: 'tcp', healthy: { interval: 1, successes: 1 }, unhealthy: { interval: 1, tcp_failures: 1 } } } })
  await put('services/any-service', { upstream_id: 'any-up', plugins: { cors: {} } })
  await put('plugin_configs/any-config', { plugins: { 'limit-count': { count: 9, time_window: 60 } } })
  await put('global_rules/any-rule', { plugins: { prometheus: {} } })
  await put('routes/any', { uri: '/any', name: 'any', desc: 'any', methods: ['GET'], vars: [['arg_a', '~=', 'b']], labels: { any: 'any' }, plugin_config_id: 'any-config', service_id: 'any-service' })
  await put('routes/any-down', { uri: '/any-down', upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await put('routes/any-measured', { uri: '/any-measured', upstream: { nodes: { [gateway.origin]: 1 } } })
  await put('routes/any-off', { uri: '/any-off', status: 0, upstream })
  await put('consumer_groups/any-group', { plugins: {} })
  await put('consumers', { username: 'any', group_id: 'any-group' } as object)
  await put('consumers/any/credentials/any-key', { plugins: { 'key-auth': { key: 'any-key' } } })
  await put('plugin_metadata/http-logger', { log_format: { host: '$host' } })
  await put('stream_routes/any-stream', { server_port: 9101, upstream })
  await put('protos/any-proto', { content: 'syntax = "proto3";\nmessage Any { string id = 1; }\n' })
  await put('secrets/vault/any', { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'any' })
  await put('ssls/any', { ...certificate('any.example'), snis: ['any.example'] })
  await put('routes/any-gone', { uri: '/any-gone', upstream })
  await gateway.call('DELETE', '/apisix/admin/routes/any-gone')
  for (const port of [1, 2]) await gateway.call('POST', '/registry/v1/instances', { service: 'any-orders', host: '10.9.0.1', port, healthy: port === 1 })
  const polaris = (method: string, path: string, body: object) => gateway.call(method, `/registry/v1/polaris/${path}`, body)
  const file = { namespace: 'default', group: 'any-files', name: 'any/any.yaml' }
  await polaris('POST', 'config/v1/configfilegroups', { namespace: 'default', name: file.group, comment: 'any' })
  await polaris('POST', 'config/v1/configfiles', { ...file, content: 'any: 1\n', format: 'yaml', tags: [{ key: 'any', value: 'any' }] })
  await polaris('POST', 'config/v1/configfiles/release', { ...file, file_name: file.name, release_name: 'any' })
  await polaris('POST', 'core/v1/users', [{ name: 'any-user', password: 'any password' }])
  await polaris('POST', 'core/v1/usergroup', { name: 'any-team' })
  await polaris('POST', 'core/v1/roles', [{ name: 'any-role' }])
  const team = (await (await gateway.call('GET', '/registry/v1/polaris/core/v1/usergroups')).json()).userGroups[0].id as string
  await polaris('POST', 'core/v1/auth/strategy', { name: 'any-policy', action: 'ALLOW', principals: { groups: [{ id: team }] }, resources: { config_groups: [{ id: 'any/*' }] }, functions: ['*'] })
  const condition = [{ paramType: 'uri', operator: '=', paramName: '/', paramValue: '/any' }]
  const selector = (await (await gateway.call('POST', '/console/v1/shenyu/selector', { name: 'any', pluginId: '5', handle: JSON.stringify([{ upstreamUrl: gateway.origin }]), selectorConditions: condition })).json()).data as string
  await gateway.call('POST', '/console/v1/shenyu/rule', { name: 'any', selectorId: selector, handle: '{}', ruleConditions: condition })
  await expect.poll(async () => (await fetch(`${gateway.plane}/any?a=c`)).status).toBe(200)
  await fetch(`${gateway.plane}/any-down`)
  const { rows } = await (await gateway.call('GET', '/console/v1/changes')).json()
  const bench = await measure(gateway)
  const kinds = ['routes', 'services', 'upstreams', 'consumers', 'consumer_groups', 'plugin_configs', 'global_rules', 'plugin_metadata', 'ssls', 'stream_routes', 'protos', 'secrets']
  const addresses = [
    ...plainScreens(), '/ui/requests?code=upstream_connect_failed&status=5xx', '/ui/requests?q=zzz', `/ui/explain?url=${encodeURIComponent(`${gateway.plane}/any?a=c`)}`, `/ui/explain?url=${encodeURIComponent(`${gateway.plane}/none`)}`, '/ui/nodes?q=zzz',
    ...kinds.map((kind) => `/ui/objects/${kind}`), ...kinds.map((kind) => `/ui/new/${kind}`), '/ui/objects/routes?q=zzz',
    '/ui/objects/routes/any', '/ui/objects/routes/any/edit', '/ui/objects/routes/any/edit?view=form', '/ui/objects/routes/any/edit?view=json', '/ui/objects/routes/any-off', '/ui/objects/routes/any-gone', '/ui/objects/upstreams/any-up', '/ui/objects/upstreams/any-up/edit', '/ui/objects/services/any-service', '/ui/objects/consumers/any', '/ui/objects/plugin_configs/any-config', '/ui/objects/secrets/vault%2Fany',
    '/ui/certificates?id=any', '/ui/objects/ssls/any', '/ui/certificates?q=zzz', '/ui/plugins?q=zzz', '/ui/plugins/limit-count', '/ui/plugins/key-auth',
    '/ui/shenyu/plugin', '/ui/shenyu/selector', '/ui/shenyu/meta-data', '/ui/shenyu/appAuth', `/ui/shenyu/selector/${selector}`, `/ui/shenyu/rule/+?in=${encodeURIComponent(JSON.stringify(selector))}`,
    '/ui/registry?q=zzz', '/ui/registry/default/any-orders', '/ui/registry/default/any-orders?tab=events', '/ui/registry/default/any-orders?tab=aliases', '/ui/registry/rules/routing/+',
    '/ui/registry?tab=namespaces', '/ui/config?in=name&q=any', '/ui/config?in=content&q=any', '/ui/config/default/any-files', ...['', '&tab=difference', '&tab=releases', '&tab=clients'].map((tab) => `/ui/config/default/any-files?file=any%2Fany.yaml${tab}`), ...['groups', 'roles', 'policies', 'rehearsal'].map((tab) => `/ui/access?tab=${tab}`),
    `/ui/bench/${bench}`, `/ui/bench/compare?ids=${bench}`, '/ui/changes?id=zzz', '/ui/objects/routes?sort=-name&q=plugin:cors', '/ui/registry/rules/rate-limit/+', '/ui/registry/rules/circuit-breaker/+', '/ui/registry/rules/lane/+', '/ui/registry/rules/lossless/+', '/ui/registry/default/any-orders?sort=-weight', `/ui/changes/${rows[0].name}`, '/ui/settings?all=true', '/ui/settings?tab=doctor', '/ui/settings?tab=log', '/ui/nothing',
    '/ui/shenyu/appAuth/+', '/ui/new/secrets?of=gcp', '/ui/objects/secrets/vault%2Fany/edit', '/ui/objects/plugin_metadata/http-logger/edit', '/ui/objects/protos/any-proto',
  ]
  const missing = unopened(addresses)
  if (missing.length > 0) throw new Error(`routes.tsx has screens that no address here opens: ${missing}`)
  return addresses
}

/** Opens a screen and waits until it has what it asks for. */
export async function open(page: Page, address: string) {
  await page.goto(address)
  await page.getByRole('heading', { level: 1 }).waitFor()
  await page.waitForLoadState('networkidle', { timeout: 700 }).catch(() => {})
  await expect(page.locator('[role=status] .mantine-Skeleton-root')).toHaveCount(0)
}
