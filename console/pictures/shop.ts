/** The shop that the pictures of the documentation show. */
import { request } from 'node:http'
import { RULE_EXAMPLES } from '../e2e/rules'
import { certificate } from '../e2e/certificate'
import { ADMIN, type Own } from '../e2e/gateway'

/** The keys of two people, so that changes are told with names. */
export const PEOPLE = { anna: '0d6fbd0c9f1b4f2f8a5a2c2f7f0e3b91', 'night shift': '5c8a1e7d4b3f49a2b6e0d9c8f7a61234' }

/** Asks the data plane as a browser of that host does. */
export const visit = (plane: string, path: string, host = 'shop.example.com', headers: Record<string, string> = {}) =>
  new Promise<number>((resolve) => {
    const sent = request(plane + path, { headers: { Host: host, ...headers } }, (got) => {
      got.resume()
      got.once('end', () => resolve(got.statusCode ?? 0))
    })
    sent.once('error', () => resolve(0))
    sent.end()
  })

/** Fills a gateway with what a shop may have: `good` answers, and another node of it does not. */
export async function openShop({ admin }: Own, good: string) {
  const as = (key: string) => async (method: string, path: string, body?: unknown) => {
    const answer = await fetch(admin + path, { method, headers: { 'X-API-KEY': key }, body: body === undefined ? undefined : JSON.stringify(body) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
    return JSON.parse(text === '' ? 'null' : text)
  }
  const [call, anna, night] = [as(ADMIN), as(PEOPLE.anna), as(PEOPLE['night shift'])]
  const checks = { active: { type: 'tcp', healthy: { interval: 1, successes: 1 }, unhealthy: { interval: 1, tcp_failures: 1 } } }
  await call('PUT', '/apisix/admin/upstreams/orders', { name: 'orders', nodes: { [good]: 3, '127.0.0.1:1': 1 }, checks })
  await call('PUT', '/apisix/admin/upstreams/stock', { name: 'stock', type: 'least_conn', nodes: { [good]: 1 } })
  await call('PUT', '/apisix/admin/services/shop', { name: 'Shop', hosts: ['shop.example.com'], upstream_id: 'orders', plugins: { cors: {}, 'limit-count': { count: 100000, time_window: 60, rejected_code: 429, key: 'remote_addr' } } })
  await call('PUT', '/apisix/admin/global_rules/1', { plugins: { prometheus: {} } })
  await call('PUT', '/apisix/admin/plugin_configs/partners', { name: 'Partners', plugins: { 'key-auth': {} } })
  await anna('PUT', '/apisix/admin/routes/orders-v1', { name: 'Orders v1', desc: 'What the shop asks for orders', uri: '/orders/*', methods: ['GET', 'POST'], service_id: 'shop', plugins: { 'proxy-rewrite': { headers: { set: { 'X-Shop': '1' } } } } })
  await anna('PUT', '/apisix/admin/routes/orders-v2', { name: 'Orders v2', uri: '/orders/*', methods: ['GET', 'POST'], priority: 10, vars: [['http_x_canary', '==', '1']], service_id: 'shop' })
  await anna('PUT', '/apisix/admin/routes/stock', { name: 'Stock', uri: '/stock/*', host: 'shop.example.com', upstream_id: 'stock' })
  await anna('PUT', '/apisix/admin/routes/pay', { name: 'Pay', uri: '/pay', host: 'shop.example.com', upstream: { nodes: { '127.0.0.1:1': 1 } }, labels: { tier: 'gold' } })
  await anna('PUT', '/apisix/admin/routes/partners', { name: 'Partners', uris: ['/partners/*', '/feeds/*'], host: 'api.example.com', plugins: { 'key-auth': {} }, upstream_id: 'stock' })
  await anna('PUT', '/apisix/admin/routes/health', { name: 'Health', uri: '/health/*', upstream_id: 'stock' })
  await anna('PUT', '/apisix/admin/routes/old', { name: 'Old catalogue', uri: '/catalogue/*', plugins: { redirect: { uri: '/stock', ret_code: 301 } }, status: 0 })
  await call('PUT', '/apisix/admin/consumers', { username: 'partner', desc: 'Buys for three countries', labels: { tier: 'gold' } })
  await call('PUT', '/apisix/admin/consumers/partner/credentials/key-2026', { plugins: { 'key-auth': { key: 'partner-key' } } })
  await call('PUT', '/apisix/admin/ssls/shop', { snis: ['shop.example.com'], ...certificate('shop.example.com', 20) })
  await call('PUT', '/apisix/admin/stream_routes/database', { name: 'Database', server_port: 9100, upstream: { nodes: { '127.0.0.1:5432': 1 } } })
  await night('PATCH', '/apisix/admin/routes/orders-v1', { priority: 5, labels: { tier: 'gold' } })
  await night('PATCH', '/apisix/admin/services/shop', { plugins: { 'limit-count': { count: 200000, time_window: 60, rejected_code: 429, key: 'remote_addr' } } })
  for (const port of [8081, 8082, 8083, 8084]) await call('POST', '/registry/v1/instances', { service: 'orders', host: '10.0.0.7', port, healthy: port !== 8083, version: '1.4', metadata: { zone: port % 2 ? 'a' : 'b' } })
  await call('POST', '/registry/v1/instances', { service: 'stock', host: '10.0.0.9', port: 8080, healthy: true })
  const { list } = await call('GET', '/registry/v1/instances?service=orders')
  await night('PATCH', `/registry/v1/instances/${list[3].id}`, { isolated: true })
  await call('POST', '/registry/v1/polaris/config/v1/configfilegroups', { namespace: 'default', name: 'shop', comment: 'Settings of the shop' })
  const file = { namespace: 'default', group: 'shop', name: 'orders.yaml' }
  for (const [content, release] of [['pool: 8\n', 'first'], ['pool: 16\ntimeout: 2s\n', 'larger pool']]) {
    await call(release === 'first' ? 'POST' : 'PUT', '/registry/v1/polaris/config/v1/configfiles', { ...file, content, format: 'yaml', tags: [{ key: 'team', value: 'orders' }] })
    await call('POST', '/registry/v1/polaris/config/v1/configfiles/release', { namespace: file.namespace, group: file.group, file_name: file.name, name: release })
  }
  await call('PUT', '/registry/v1/polaris/config/v1/configfiles', { ...file, content: 'pool: 16\ntimeout: 3s\n', format: 'yaml' })
  await call('POST', '/registry/v1/polaris/core/v1/users', [{ name: 'mary', password: 'any password', comment: 'Owns orders' }])
  await call('POST', '/registry/v1/polaris/core/v1/usergroup', { name: 'writers' })
  const team = (await call('GET', '/registry/v1/polaris/core/v1/usergroups')).userGroups[0].id as string
  await call('POST', '/registry/v1/polaris/core/v1/auth/strategy', { name: 'orders', action: 'ALLOW', principals: { groups: [{ id: team }] }, resources: { config_groups: [{ id: 'default/shop' }] }, functions: ['*'] })
  await call('POST', '/registry/v1/rules/rate-limit', { name: 'orders', namespace: 'default', service: 'orders', ...RULE_EXAMPLES['rate-limit'], id: 'orders' })
  const condition = [{ paramType: 'uri', operator: 'startsWith', paramName: '/', paramValue: '/legacy/' }]
  const selector = (await call('POST', '/console/v1/shenyu/selector', { name: 'legacy shop', pluginId: '5', type: 1, matchMode: 0, handle: JSON.stringify([{ upstreamUrl: good, protocol: 'http://', weight: 50, status: true }]), selectorConditions: condition })).data as string
  await call('POST', '/console/v1/shenyu/rule', { name: 'find orders', selectorId: selector, handle: JSON.stringify({ loadBalance: 'random', retry: 3, timeout: 3000 }), ruleConditions: condition })
  await call('POST', '/console/v1/shenyu/appAuth', { appKey: 'LEGACYSHOP', appSecret: 'not shown', userId: 'legacy' })
  const rules = (await call('GET', `/console/v1/shenyu/rule?selectorId=${selector}`)).data.dataList as { id: string }[]
  return { selector, rule: rules[0]?.id as string }
}
