/** What governance rules have in common: names of the registry, callers, comparisons and conditions on calls. */
import { type Layer, lines, type Look, type Need, plain, type Section } from '../layer'

export const NAMESPACE: Look = { title: ['Namespace', '命名空间'], of: 'registry-namespace', placeholder: 'default' }
export const SERVICE: Look = { title: ['Service', '服务'], of: 'registry-service', placeholder: 'orders' }
export const ANY_NAMESPACE: Look = { ...NAMESPACE, all: ['Every namespace', '所有命名空间'] }
export const ANY_SERVICE: Look = { ...SERVICE, all: ['Every service', '所有服务'] }

export const RULE_NAME: Look = { title: ['Name', '名称'] }
export const ON: Look = { title: ['Enabled', '启用'], help: ['Clients apply only enabled rules.', '客户端只应用已启用的规则。'] }
export const ORDER: Look = { title: ['Order', '顺序'], help: ['Rules with smaller numbers come first.', '数字小的规则优先。'], placeholder: '0' }

/** A field of older programs: drawn where it is set, offered nowhere. */
export const older = (en: string, zh: string, look: Look = {}): Look => ({ ...look, title: [en, zh], when: () => false })

export const GENERAL: Section = { title: ['General', '基本'], items: ['name', 'namespace', 'enable', 'priority'] }
export const NOTES: Section = { title: ['Notes', '备注'], items: ['description', 'metadata', 'extendInfo'], isFolded: true }
export const SHARED: Record<string, Look> = {
  name: RULE_NAME, namespace: { ...NAMESPACE, title: ['Namespace of the rule', '规则的命名空间'] }, enable: ON, priority: ORDER,
  description: { title: ['Description', '描述'], as: 'lines' }, metadata: { title: ['Labels', '标签'] }, extendInfo: { title: ['Notes of tools', '工具备注'] },
}

/** A new rule has a name, which lists show; the registry takes rules without. */
export const NAMED: Need = { title: ['Name', '名称'], sides: [['name']], isOfNew: true }
export const OF_SERVICE: Need = { title: ['Service', '服务'], sides: [['service']] }
export const OF_NAMESPACE: Need = { title: ['Namespace', '命名空间'], sides: [['namespace']] }

/** Types of messages, which the choice between them tells. */
export const types = (...messages: string[]): Look => ({ when: () => false, idle: messages.map((message) => `type.googleapis.com/v1.${message}`) })

/** A comparison with a value, as one row. */
const COMPARISON: Layer = plain({ type: { title: ['Comparison', '比较'] }, value: { title: ['Value', '值'] }, value_type: { title: ['Kind of value', '值的类型'] } })
const COMPARED: Layer = { ...COMPARISON, needs: [{ title: ['Value in a condition', '条件的值'], sides: [['value']] }] }

export const comparison = (title: Look['title'], help?: Look['help']): Look => ({ title, help, as: 'comparison', layer: COMPARISON })

/** A comparison that says nothing without its value. */
export const COMPARED_TO: Look = { title: ['Value', '值'], as: 'comparison', layer: COMPARED }

/** What calls are told by that has a name of its own. */
export const NAMED_SUBJECTS: readonly string[] = ['CUSTOM', 'HEADER', 'QUERY', 'COOKIE', 'CALLER_METADATA', 'CALLEE_METADATA', 'CALLER_SERVICE']

/** Conditions on a call, each a sentence. */
export const CONDITIONS: Look = {
  title: ['Conditions', '条件'], as: 'callConditions',
  layer: {
    ...plain({ type: { title: ['Look at', '检查对象'] }, key: { title: ['Name', '名称'] }, value: { title: ['Value', '值'], layer: COMPARED } }),
    needs: [{ title: ['Name in a condition', '条件的名称'], sides: [['key']], when: ({ type }) => NAMED_SUBJECTS.includes(String(type ?? 'CUSTOM')) }, { title: ['Value in a condition', '条件的值'], sides: [['value']] }],
  },
}

/** Labels of instances, each compared with a value. */
export const labels = (title: Look['title'], help?: Look['help']): Look => ({ title, help, as: 'labelConditions', layer: COMPARED })

const CALLER_LABELS = labels(['Labels of the caller', '主调标签'], ['All must match.', '须全部匹配。'])
const callers = (own: Record<string, Look>): Look => ({
  title: ['Callers', '主调方'], help: ['One match is enough.', '满足其一即可。'], layer: lines({ service: ANY_SERVICE, namespace: ANY_NAMESPACE, ...own }, [['service', 'namespace'], ...Object.keys(own).map((name) => [name])]),
})

/** Callers by conditions on the call, and by labels in rules of the first generation. */
export const CALLERS: Look = callers({ arguments: { ...CONDITIONS, help: ['All must hold. Without one, every call matches.', '须全部满足；没有条件则匹配所有调用。'] } })
export const CALLERS_V1: Look = callers({ metadata: CALLER_LABELS })

const INSTANCE_LABELS = labels(['Instance labels', '实例标签'], ['Only instances with all of these. Without one, all instances.', '仅选择全部匹配的实例；没有标签则为所有实例。'])
const destinations = (own: string): Look => ({
  title: ['Destinations', '目标'],
  layer: {
    ...lines({
      service: ANY_SERVICE, namespace: ANY_NAMESPACE, [own]: INSTANCE_LABELS,
      weight: { title: ['Weight', '权重'], help: ['Share of the calls among destinations of the same order.', '相同顺序的目标之间的流量份额。'], placeholder: '100' },
      priority: { title: ['Order', '顺序'], help: ['Destinations with smaller numbers come first.', '数字小的目标优先。'], placeholder: '0' },
      isolate: { title: ['Gets no calls', '不接收调用'], help: ['Takes the destination out without deleting it.', '不删除目标，仅停止调用。'] },
      name: { title: ['Name', '名称'] },
      transfer: { title: ['Stand-in service', '替补服务'], help: ['Takes over if the destination has no instance.', '目标没有实例时接替。'], of: 'registry-service' },
    }, [['service', 'namespace'], [own], ['weight', 'priority'], ['isolate']]),
    needs: [{ title: ['Service of a destination', '目标的服务'], sides: [['service']] }],
  },
})

/** Destinations; the labels of their instances are called `metadata` in rules of the first generation. */
export const DESTINATIONS = destinations('labels')
export const DESTINATIONS_V1 = destinations('metadata')

/** Several values, as in `choices`, of a name that the protocol leaves open. */
const PROTOCOLS: Look['choices'] = { '*': ['Every protocol', '所有协议'], HTTP: ['HTTP', 'HTTP'], DUBBO: ['Dubbo', 'Dubbo'], gRPC: ['gRPC', 'gRPC'], THRIFT: ['Thrift', 'Thrift'] }
const METHODS: Look['choices'] = { '*': ['Every method', '所有方法'], GET: ['GET', 'GET'], POST: ['POST', 'POST'], PUT: ['PUT', 'PUT'], PATCH: ['PATCH', 'PATCH'], DELETE: ['DELETE', 'DELETE'] }

export const API: Look = {
  title: ['Interface', '接口'], help: ['Which interface of the service. Empty: all.', '服务的哪些接口；留空表示全部。'], inline: 'titled',
  layer: lines({ protocol: { title: ['Protocol', '协议'], choices: PROTOCOLS }, method: { title: ['Method', '方法'], choices: METHODS }, path: comparison(['Path', '路径'], ['* is every path.', '* 表示所有路径。']) }, [['protocol', 'method'], ['path']]),
}

/** Headers as pairs. */
export const HEADERS: Look = { title: ['Headers', '请求头'], isRow: true, layer: plain({ key: { title: ['Name', '名称'] }, value: { title: ['Value', '值'] } }) }
