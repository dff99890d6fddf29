/** Layers of the governance rules that most people write. The other kinds are drawn from their schemas alone. */
import { type Layer, type Look, plain, type Section } from './layer'

const SERVICE: Look = { title: ['Service', '服务'], help: ['* means every service.', '* 表示所有服务。'] }
const NAMESPACE: Look = { title: ['Namespace', '命名空间'], help: ['* means every namespace.', '* 表示所有命名空间。'] }
const RULE_NAME: Look = { title: ['Name', '名称'] }
const ON: Look = { title: ['Enabled', '启用'], help: ['Clients apply only enabled rules.', '客户端只应用已启用的规则。'] }
const ORDER: Look = { title: ['Order', '顺序'], help: ['Rules with smaller numbers come first.', '数字小的规则优先。'] }

const GENERAL: Section = { title: ['General', '基本'], items: ['name', 'namespace', 'enable', 'priority'] }
const NOTES: Section = { title: ['Notes', '备注'], items: ['description', 'metadata'], isFolded: true }
const SHARED: Record<string, Look> = {
  name: RULE_NAME, namespace: { title: ['Namespace', '命名空间'] }, enable: ON, priority: ORDER,
  description: { title: ['Description', '描述'], as: 'lines' }, metadata: { title: ['Labels', '标签'] },
}

/** A name of the protocol that is the same in every rule of a kind. */
const fixed = (message: string): Look => ({ when: () => false, idle: `type.googleapis.com/v1.${message}` })

const COMPARISON: Record<string, Look> = {
  type: {
    title: ['Comparison', '比较'],
    choices: { EXACT: ['is', '等于'], NOT_EQUALS: ['is not', '不等于'], IN: ['is one of', '属于'], NOT_IN: ['is none of', '不属于'], REGEX: ['matches the regex', '匹配正则'], RANGE: ['is in the range', '在范围内'] },
  },
  value: { title: ['Value', '值'] },
  value_type: { title: ['Value is', '值的类型'], choices: { TEXT: ['A text', '文本'], PARAMETER: ['A part of the call', '调用的一部分'], VARIABLE: ['A variable of the caller', '调用方的变量'] } },
}
const VALUE: Look = { title: ['Value', '值'], inline: 'bare', layer: plain(COMPARISON, ['type', 'value']) }

const ARGUMENTS: Look = {
  title: ['Conditions on a call', '调用条件'], help: ['All must hold. Empty: every call.', '须全部满足；留空表示所有调用。'],
  layer: plain({
    type: {
      title: ['Look at', '检查对象'],
      choices: {
        CUSTOM: ['A label', '自定义标签'], METHOD: ['The method', '方法'], HEADER: ['A header', '请求头'], QUERY: ['A query parameter', '查询参数'], COOKIE: ['A cookie', 'Cookie'], PATH: ['The path', '路径'],
        CALLER_SERVICE: ['The calling service', '主调服务'], CALLER_IP: ['The caller\'s address', '主调 IP'], CALLER_METADATA: ['A label of the caller', '主调标签'],
      },
    },
    key: { title: ['Name', '名称'] },
    value: VALUE,
  }),
}

const CALLERS: Look = { title: ['Callers', '主调方'], help: ['One match is enough.', '满足其一即可。'], layer: plain({ service: SERVICE, namespace: NAMESPACE, arguments: ARGUMENTS }) }

const DESTINATIONS: Look = {
  title: ['Destinations', '目标'],
  layer: plain({
    service: SERVICE, namespace: NAMESPACE, labels: { title: ['Instance labels', '实例标签'], help: ['Only instances with all of these labels.', '仅选择具有全部这些标签的实例。'] },
    weight: { title: ['Weight', '权重'], help: ['Share of the calls among destinations of the same order.', '相同顺序的目标之间的流量份额。'] },
    priority: { title: ['Order', '顺序'], help: ['Destinations with smaller numbers come first.', '数字小的目标优先。'] },
    isolate: { title: ['Gets no calls', '不接收调用'], help: ['Takes the destination out without deleting it.', '不删除目标，仅停止调用。'] },
  }),
}

const routing: Layer = {
  sections: [GENERAL, { title: ['Routing', '路由'], note: ['Tried in order; the first that matches a call decides.', '按顺序尝试，首个匹配者生效。'], items: ['routing_config'] }, NOTES],
  fields: {
    ...SHARED,
    routing_config: {
      title: ['Routing', '路由'], inline: 'bare',
      layer: { sections: [{ title: ['', ''], items: ['rules', '@type'] }], fields: { '@type': fixed('RuleRoutingConfig'), rules: { title: ['Rules', '规则'], layer: plain({ name: RULE_NAME, sources: CALLERS, destinations: DESTINATIONS }) } } },
    },
  },
}

const LEVELS: Look['choices'] = { UNKNOWN: ['Any place', '任意位置'], CAMPUS: ['The same campus', '同园区'], ZONE: ['The same zone', '同可用区'], REGION: ['The same region', '同地域'], ALL: ['Any place', '任意位置'] }

const nearby: Layer = {
  sections: [GENERAL, { title: ['Nearby routing', '就近路由'], items: ['routing_config'] }, NOTES],
  fields: {
    ...SHARED,
    routing_config: {
      title: ['Nearby routing', '就近路由'], inline: 'bare',
      layer: {
        sections: [{ title: ['', ''], items: ['service', 'namespace', 'match_level', 'max_match_level', 'strict_nearby', '@type'] }],
        fields: {
          '@type': fixed('NearbyRoutingConfig'), service: SERVICE, namespace: NAMESPACE,
          match_level: { title: ['Prefer instances in', '优先选择'], choices: LEVELS }, max_match_level: { title: ['Or else as far as', '最远允许'], choices: LEVELS },
          strict_nearby: { title: ['Fail if none is near enough', '没有足够近的实例时失败'], help: ['Off: any instance is used then.', '关闭：此时使用任意实例。'] },
        },
      },
    },
  },
}

const limit: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['name', 'service', 'namespace', 'disable', 'priority'] },
    { title: ['Limit', '限额'], items: ['resource', 'type', 'amounts', 'concurrency_amount', 'action', 'max_queue_delay'] },
    { title: ['Calls', '调用'], note: ['Which calls of the service are limited. Empty fields match all.', '限制服务的哪些调用。空字段表示不限。'], items: ['method', 'arguments'] },
    { title: ['When refused', '拒绝时'], items: ['customResponse'], isFolded: true },
    { title: ['Notes', '备注'], items: ['metadata'], isFolded: true },
  ],
  fields: {
    ...SHARED, service: SERVICE, namespace: NAMESPACE, disable: { title: ['Switched off', '停用'], help: ['Clients ignore the rule.', '客户端忽略此规则。'] },
    resource: { title: ['Limit', '限制'], choices: { QPS: ['Requests in a period', '周期内的请求数'], CONCURRENCY: ['Requests at once', '并发请求数'] } },
    type: { title: ['Counted', '计数方式'], choices: { GLOBAL: ['Over all instances together', '所有实例合计'], LOCAL: ['In each instance', '每个实例单独'] } },
    amounts: {
      title: ['Requests', '请求数'], help: ['All of them apply.', '全部生效。'], isRow: true, when: ({ resource }) => resource !== 'CONCURRENCY',
      layer: plain({ maxAmount: { title: ['Requests allowed', '允许的请求数'] }, validDuration: { title: ['Period', '周期'], placeholder: '1s' } }),
    },
    concurrency_amount: { title: ['At once', '并发'], inline: 'bare', when: ({ resource }) => resource === 'CONCURRENCY', layer: plain({ max_amount: { title: ['Requests at once', '并发请求数'] } }) },
    action: { title: ['Above the limit', '超过限额'], help: ['reject refuses requests, unirate delays them.', 'reject 表示拒绝，unirate 表示匀速排队。'], placeholder: 'reject' },
    max_queue_delay: { title: ['Longest delay', '最长排队时间'], unit: 'seconds', when: ({ action }) => String(action).toLowerCase() === 'unirate' },
    method: { title: ['Interface', '接口'], help: ['Method or path of the interface.', '接口的方法或路径。'], inline: 'titled', isRow: true, layer: plain(COMPARISON, ['type', 'value']) },
    arguments: ARGUMENTS,
    customResponse: { title: ['Response', '应答'], inline: 'bare', layer: plain({ body: { title: ['Response body', '应答体'], as: 'lines' } }) },
  },
}

const ERRORS: Look = {
  title: ['Errors', '错误'], help: ['Conditions for a call to count as an error.', '调用计为错误的条件。'],
  layer: plain({ inputType: { title: ['Look at', '检查对象'], choices: { UNKNOWN: ['Nothing', '无'], RET_CODE: ['Status code', '状态码'], DELAY: ['Duration', '耗时'] } }, condition: VALUE }),
}
const TRIGGERS: Look = {
  title: ['Opens at', '熔断条件'], help: ['One is enough.', '满足其一即可。'],
  layer: plain({
    triggerType: { title: ['Counted', '统计'], choices: { UNKNOWN: ['Nothing', '无'], ERROR_RATE: ['Share of errors', '错误比例'], CONSECUTIVE_ERROR: ['Errors in a row', '连续错误'] } },
    errorPercent: { title: ['Share of errors', '错误比例'], unit: 'percent', when: ({ triggerType }) => triggerType !== 'CONSECUTIVE_ERROR' },
    interval: { title: ['Within', '统计时长'], unit: 'seconds', when: ({ triggerType }) => triggerType !== 'CONSECUTIVE_ERROR' },
    minimumRequest: { title: ['After at least', '最少请求数'], when: ({ triggerType }) => triggerType !== 'CONSECUTIVE_ERROR' },
    errorCount: { title: ['Errors in a row', '连续错误'], when: ({ triggerType }) => triggerType === 'CONSECUTIVE_ERROR' },
  }),
}
const RECOVERY: Look = {
  title: ['Recovery', '恢复'], inline: 'titled', isRow: true,
  layer: plain({ sleepWindow: { title: ['Try again after', '重试间隔'], unit: 'seconds' }, consecutiveSuccess: { title: ['Closes after successes', '恢复所需成功数'] } }),
}

const breaker: Layer = {
  sections: [
    GENERAL,
    { title: ['Scope', '范围'], items: ['ruleMatcher', 'level'] },
    { title: ['Breaker', '熔断'], items: ['block_configs', 'recoverCondition', 'maxEjectionPercent'] },
    NOTES,
  ],
  fields: {
    ...SHARED,
    level: { title: ['Breaks for', '熔断粒度'], choices: { UNKNOWN: ['Not set', '未设置'], SERVICE: ['The whole service', '整个服务'], METHOD: ['One interface', '单个接口'], GROUP: ['A group of instances', '实例组'], INSTANCE: ['One instance', '单个实例'] } },
    ruleMatcher: {
      title: ['Scope', '范围'], inline: 'bare',
      layer: plain({
        source: { title: ['Callers', '主调方'], inline: 'titled', isRow: true, layer: plain({ service: SERVICE, namespace: NAMESPACE }) },
        destination: { title: ['Called service', '被调服务'], inline: 'titled', layer: plain({ service: SERVICE, namespace: NAMESPACE, method: { title: ['Interface', '接口'], isRow: true, layer: plain(COMPARISON, ['type', 'value']) } }) },
      }),
    },
    block_configs: { title: ['Breakers', '熔断器'], layer: plain({ name: RULE_NAME, error_conditions: ERRORS, trigger_conditions: TRIGGERS }) },
    recoverCondition: RECOVERY,
    maxEjectionPercent: { title: ['Largest share of instances cut off', '最大熔断实例比例'], unit: 'percent' },
  },
}

/** Layers of rules, by the kind in their addresses. */
export const RULE_LAYERS: Record<string, Layer> = { routing, 'nearby-routing': nearby, 'rate-limit': limit, 'circuit-breaker': breaker }
