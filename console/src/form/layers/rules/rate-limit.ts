/** Form of rate limits. */
import { type Layer, plain } from '../layer'
import { comparison, CONDITIONS, labels, NAMED, NAMESPACE, OF_NAMESPACE, OF_SERVICE, older, SERVICE, SHARED } from './shared'

export const rateLimit: Layer = {
  needs: [
    NAMED, OF_SERVICE, OF_NAMESPACE,
    { title: ['Requests', '请求数'], sides: [['amounts']], when: ({ resource }) => resource !== 'CONCURRENCY' },
    { title: ['Requests at once', '并发请求数'], sides: [['concurrency_amount']], when: ({ resource }) => resource === 'CONCURRENCY' },
  ],
  sections: [
    { title: ['General', '基本'], items: ['name', 'service', 'namespace', 'disable', 'priority'] },
    { title: ['Limit', '限额'], items: ['resource', 'type', 'amounts', 'concurrency_amount', 'action', 'max_queue_delay'] },
    { title: ['Calls', '调用'], note: ['Which calls of the service are limited. Empty fields match all.', '限制服务的哪些调用。空字段表示不限。'], items: ['method', 'arguments', 'labels', 'subset'] },
    { title: ['When refused', '拒绝时'], items: ['custom_response'], isFolded: true },
    { title: ['Counting', '计数'], items: ['amountMode', 'failover', 'regex_combine', 'cluster'], isFolded: true },
    { title: ['Notes', '备注'], items: ['metadata'], isFolded: true },
  ],
  fields: {
    ...SHARED, service: SERVICE, namespace: NAMESPACE, disable: { title: ['Switched off', '停用'], help: ['Clients ignore the rule.', '客户端忽略此规则。'] },
    resource: { title: ['Limit', '限制'], choices: { QPS: ['Requests in a period', '周期内的请求数'], CONCURRENCY: ['Requests at once', '并发请求数'] } },
    type: { title: ['Counted', '计数方式'], choices: { GLOBAL: ['Over all instances together', '所有实例合计'], LOCAL: ['In each instance', '每个实例单独'] } },
    amounts: {
      title: ['Requests', '请求数'], help: ['All of them apply; each has its own period.', '全部生效，各有周期。'], isRow: true, when: ({ resource }) => resource !== 'CONCURRENCY',
      layer: {
        ...plain({
          maxAmount: { title: ['Requests allowed', '允许的请求数'], placeholder: '100' }, validDuration: { title: ['Period', '周期'], as: 'duration', placeholder: '1' },
          precision: { title: ['Steps of the period', '周期分段数'] }, startAmount: { title: ['Requests at first', '起始请求数'] }, minAmount: { title: ['Requests at least', '最少请求数'] },
        }, ['maxAmount', 'validDuration']),
        needs: [{ title: ['Requests allowed', '允许的请求数'], sides: [['maxAmount']] }, { title: ['Period', '周期'], sides: [['validDuration']] }],
      },
    },
    concurrency_amount: {
      title: ['At once', '并发'], inline: 'bare', when: ({ resource }) => resource === 'CONCURRENCY',
      layer: { ...plain({ max_amount: { title: ['Requests at once', '并发请求数'], placeholder: '20' } }), needs: [{ title: ['Requests at once', '并发请求数'], sides: [['max_amount']] }] },
    },
    action: { title: ['Above the limit', '超过限额'], choices: { reject: ['Refuse', '拒绝'], unirate: ['Delay, at an even rate', '匀速排队'] } },
    max_queue_delay: { title: ['Longest delay', '最长排队时间'], unit: 'seconds', when: ({ action }) => String(action).toLowerCase() === 'unirate' },
    method: comparison(['Interface', '接口'], ['Method or path of the interface.', '接口的方法或路径。']),
    arguments: { ...CONDITIONS, help: ['All must hold. Without one, every call is limited.', '须全部满足；没有条件则限制所有调用。'] },
    labels: older('Labels of the call (older form)', '调用标签（旧格式）', labels(undefined)), subset: older('Labels of the instances (older form)', '实例标签（旧格式）', labels(undefined)),
    custom_response: { title: ['Response', '应答'], inline: 'bare', layer: plain({ body: { title: ['Response body', '应答体'], as: 'lines' } }) },
    amountMode: { title: ['The limit is for', '限额对象'], choices: { GLOBAL_TOTAL: ['All instances together', '所有实例合计'], SHARE_EQUALLY: ['Each instance, an equal share', '各实例均分'] } },
    failover: { title: ['If the counters cannot be reached', '计数服务不可达时'], choices: { FAILOVER_LOCAL: ['Count in each instance', '退化为单机计数'], FAILOVER_PASS: ['Do not limit', '不限流'] } },
    regex_combine: { title: ['Count all matches of a pattern together', '正则匹配合并计数'] },
    cluster: { title: ['Limiter', '限流服务'], help: ['Service that counts. Empty: the one that clients have configured.', '负责计数的服务；留空则用客户端配置的。'], inline: 'titled', layer: plain({ service: SERVICE, namespace: NAMESPACE }) },
    report: older('Reports of clients', '上报', { layer: plain({ interval: { title: ['Interval', '间隔'], as: 'duration' }, amountPercent: { title: ['Share of the amount', '用量比例'], unit: 'percent' } }) }),
    adjuster: older('Adjustment by load', '自适应调整'), service_token: older('Token of the service', '服务令牌'), editable: older('May be edited', '可编辑'), deleteable: older('May be deleted', '可删除'),
  },
}
