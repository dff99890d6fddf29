/** The kinds of governance rules, and what a new rule of each begins with. What rules are made of is told by the gateway. */

export const RULE_KINDS = [
  'routing', 'nearby-routing', 'rate-limit', 'circuit-breaker', 'fault-detector', 'lane', 'lossless', 'block-allow', 'traffic-mirroring', 'fault-injection', 'routing-v1',
] as const
export type RuleKind = (typeof RULE_KINDS)[number]

export const isRuleKind = (kind: string): kind is RuleKind => (RULE_KINDS as readonly string[]).includes(kind)

export interface Rule { kind: RuleKind; id: string; name: string; namespace: string; priority: number; enabled: boolean; update_time: number; rule: unknown }

const config = (name: string, value: object) => ({ '@type': `type.googleapis.com/v1.${name}`, ...value })
const empty = { type: 'EXACT', value: '' }
const unnamed = { service: '', namespace: 'default' }
const anyone = { service: '*', namespace: '*' }
const every = { protocol: '*', method: '*', path: { type: 'EXACT', value: '*' } }
const condition = { type: 'HEADER', key: '', value: empty }

/** What a new rule begins with: its shape, choices that most rules make, and no name or number that only its author knows. */
export const RULE_STARTS: Record<RuleKind, object> = {
  routing: {
    name: '', namespace: 'default', enable: true, routing_policy: 'RulePolicy', priority: 0,
    routing_config: config('RuleRoutingConfig', { rules: [{ name: '', sources: [{ ...anyone, arguments: [] }], destinations: [{ ...unnamed, labels: {}, weight: 100, priority: 0, isolate: false }] }] }),
  },
  'nearby-routing': {
    name: '', namespace: 'default', enable: true, routing_policy: 'NearbyPolicy', priority: 0,
    routing_config: config('NearbyRoutingConfig', { ...unnamed, match_level: 'ZONE', max_match_level: 'REGION', strict_nearby: false }),
  },
  'rate-limit': { name: '', ...unnamed, resource: 'QPS', type: 'GLOBAL', disable: false, amounts: [{}] },
  'circuit-breaker': {
    name: '', namespace: 'default', enable: true, level: 'INSTANCE',
    ruleMatcher: { source: anyone, destination: { ...unnamed, method: { type: 'EXACT', value: '*' } } },
    block_configs: [{ name: '', api: every, error_conditions: [{ inputType: 'RET_CODE', condition: { type: 'RANGE', value: '' } }], trigger_conditions: [{ triggerType: 'ERROR_RATE' }] }],
    recoverCondition: {},
  },
  'fault-detector': { name: '', namespace: 'default', targetService: { ...unnamed, api: every }, protocol: 'HTTP', httpConfig: { method: 'GET', url: '' } },
  lane: {
    name: '', entries: [{ type: 'polarismesh.cn/service', selector: config('ServiceSelector', { ...unnamed, labels: {} }) }],
    destinations: [unnamed],
    rules: [{ name: '', enable: true, match_mode: 'PERMISSIVE', default_label_value: '', traffic_match_rule: { arguments: [condition], matchMode: 'AND' } }],
  },
  lossless: { ...unnamed, lossless_online: { delay_register: { enable: false }, warmup: { enable: false } }, lossless_offline: { enable: false } },
  'block-allow': {
    name: '', ...unnamed, enable: true, priority: 0,
    block_allow_config: [{ api: every, arguments: [condition], block_allow_policy: 'ALLOW_LIST' }],
  },
  'traffic-mirroring': { ...unnamed, enabled: true, sources: [anyone], destinations: [unnamed] },
  'fault-injection': { ...unnamed, enabled: true, sources: [anyone] },
  'routing-v1': { ...unnamed, inbounds: [{ sources: [anyone], destinations: [{ ...unnamed, metadata: {}, weight: 100 }] }] },
}
