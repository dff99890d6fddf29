/** Governance rules that tests write, one of each kind. No test is here. */
import type { RuleKind } from '../src/features/registry/kinds'

const config = (name: string, value: object) => ({ '@type': `type.googleapis.com/v1.${name}`, ...value })
const exact = (value: string) => ({ type: 'EXACT', value })

/** A whole rule of each kind. */
export const RULE_EXAMPLES: Record<RuleKind, object> = {
  routing: {
    name: 'canary', namespace: 'default', enable: true, routing_policy: 'RulePolicy', priority: 0,
    routing_config: config('RuleRoutingConfig', {
      rules: [{
        name: 'all to v2',
        sources: [{ service: '*', namespace: '*', arguments: [] }],
        destinations: [{ service: 'orders', namespace: 'default', labels: { version: exact('2.0.0') }, weight: 100, priority: 0, isolate: false }],
      }],
    }),
  },
  'nearby-routing': {
    name: 'nearby', namespace: 'default', enable: true, routing_policy: 'NearbyPolicy', priority: 0,
    routing_config: config('NearbyRoutingConfig', { service: 'orders', namespace: 'default', match_level: 'ZONE', max_match_level: 'REGION', strict_nearby: false }),
  },
  'rate-limit': {
    name: 'limit', namespace: 'default', service: 'orders', resource: 'QPS', type: 'GLOBAL', disable: false,
    amounts: [{ maxAmount: 100, validDuration: '1s' }],
  },
  'circuit-breaker': {
    name: 'breaker', namespace: 'default', enable: true, level: 'INSTANCE',
    ruleMatcher: { source: { service: '*', namespace: '*' }, destination: { service: 'orders', namespace: 'default', method: exact('*') } },
    block_configs: [{
      name: 'errors', api: { protocol: '*', method: '*', path: exact('*') },
      error_conditions: [{ inputType: 'RET_CODE', condition: { type: 'RANGE', value: '500~599' } }],
      trigger_conditions: [{ triggerType: 'ERROR_RATE', errorPercent: 50, interval: 30, minimumRequest: 10 }],
    }],
    maxEjectionPercent: 50, recoverCondition: { sleepWindow: 30, consecutiveSuccess: 3 },
  },
  'fault-detector': {
    name: 'probe', namespace: 'default', targetService: { service: 'orders', namespace: 'default', method: exact('*') },
    interval: 30, timeout: 1000, port: 0, protocol: 'HTTP', httpConfig: { method: 'GET', url: '/health', headers: [], body: '' },
  },
  lane: {
    name: 'canary', entries: [{ type: 'polarismesh.cn/service', selector: config('ServiceSelector', { namespace: 'default', service: 'shop', labels: {} }) }],
    destinations: [{ service: 'orders', namespace: 'default' }],
    rules: [{ name: 'colour', enable: true, match_mode: 'PERMISSIVE', default_label_value: 'canary', traffic_match_rule: { arguments: [{ type: 'HEADER', key: 'x-lane', value: exact('canary') }], matchMode: 'AND' } }],
  },
  lossless: {
    service: 'orders', namespace: 'default',
    lossless_online: { delay_register: { enable: true, strategy: 'DELAY_BY_TIME', interval_second: 30 }, warmup: { enable: true, interval_second: 60, curvature: 2 }, readiness: { enable: true } },
    lossless_offline: { enable: true },
  },
  'block-allow': {
    name: 'partners', namespace: 'default', service: 'orders', enable: true, priority: 0,
    block_allow_config: [{ api: { protocol: 'HTTP', method: 'GET', path: exact('/') }, arguments: [{ type: 'CALLER_IP', key: '$caller_ip', value: exact('10.0.0.1') }], block_allow_policy: 'ALLOW_LIST' }],
  },
  'traffic-mirroring': {
    service: 'orders', namespace: 'default', enabled: true, mirroringPercent: 10, sources: [{ service: '*', namespace: '*' }], destinations: [{ service: 'orders-shadow', namespace: 'default', weight: 100 }],
  },
  'fault-injection': {
    service: 'orders', namespace: 'default', enabled: false, sources: [{ service: '*', namespace: '*' }], delayFault: { delayPercent: 10, delay: 100 },
  },
  'routing-v1': {
    service: 'orders', namespace: 'default', inbounds: [{ sources: [{ service: '*', namespace: '*' }], destinations: [{ service: 'orders', namespace: 'default', metadata: { version: exact('2.0.0') }, weight: 100 }] }], outbounds: [],
  },
}
