/** Form of lossless start and stop: how instances join and leave without errors. */
import { type Layer, plain } from '../layer'
import { NAMESPACE, OF_NAMESPACE, OF_SERVICE, SERVICE } from './shared'

const isOn = ({ enable }: Record<string, unknown>) => enable === true
const byHealth = (rule: Record<string, unknown>) => isOn(rule) && rule.strategy === 'DELAY_BY_HEALTH_CHECK'

export const lossless: Layer = {
  needs: [OF_SERVICE, OF_NAMESPACE],
  sections: [
    { title: ['Service', '服务'], items: ['service', 'namespace'] },
    { title: ['Start', '启动'], note: ['How fresh instances get calls.', '新实例如何开始接收调用。'], items: ['lossless_online'] },
    { title: ['Stop', '停止'], items: ['lossless_offline'] },
    { title: ['Notes', '备注'], items: ['metadata'], isFolded: true },
  ],
  fields: {
    service: SERVICE, namespace: NAMESPACE, metadata: { title: ['Labels', '标签'] },
    lossless_online: {
      title: ['Start', '启动'], inline: 'bare',
      layer: plain({
        delay_register: {
          title: ['Registration', '注册'], inline: 'titled',
          layer: {
            ...plain({
              enable: { title: ['Register later', '延迟注册'], help: ['Instances get no calls before.', '注册前不接收调用。'] },
              strategy: { title: ['Register', '注册时机'], choices: { DELAY_BY_TIME: ['After a time', '一段时间后'], DELAY_BY_HEALTH_CHECK: ['After a health check passes', '健康检查通过后'] }, when: isOn, idle: ['DELAY_BY_TIME', 'DELAY_BY_HEALTH_CHECK'] },
              interval_second: { title: ['Delay', '延迟'], unit: 'seconds', placeholder: '30', when: (rule) => isOn(rule) && rule.strategy !== 'DELAY_BY_HEALTH_CHECK', idle: 0 },
              health_check_protocol: { title: ['Protocol of the check', '检查协议'], choices: { HTTP: ['HTTP', 'HTTP'] }, when: byHealth },
              health_check_method: { title: ['Method', '方法'], choices: { GET: ['GET', 'GET'], HEAD: ['HEAD', 'HEAD'], POST: ['POST', 'POST'] }, when: byHealth },
              health_check_path: { title: ['Path', '路径'], placeholder: '/health', when: byHealth },
              health_check_interval_second: { title: ['Interval', '间隔'], help: ['In seconds. Empty: 30.', '单位为秒，留空为 30。'], placeholder: '30', when: byHealth },
            }),
            needs: [
              { title: ['Delay', '延迟'], sides: [['interval_second']], when: (rule) => isOn(rule) && rule.strategy !== 'DELAY_BY_HEALTH_CHECK' },
              { title: ['Path of the health check', '健康检查路径'], sides: [['health_check_path']], when: byHealth },
            ],
          },
        },
        warmup: {
          title: ['Warm-up', '预热'], inline: 'titled',
          layer: {
            ...plain({
              enable: { title: ['Raise the share of calls slowly', '逐步增加流量'] },
              interval_second: { title: ['Full share after', '达到全部份额'], unit: 'seconds', placeholder: '60', when: isOn, idle: 0 },
              curvature: { title: ['Curve, 1 to 5', '曲线 1–5'], help: ['1 is a straight line; more starts slower.', '1 为直线，越大开始越慢。'], placeholder: '1', when: isOn, idle: 0 },
              enable_overload_protection: { title: ['Stop while most instances warm up', '多数实例预热时停止'], help: ['Keeps few warm instances from taking all calls.', '避免少数已预热实例承担全部调用。'], when: isOn, idle: false },
              overload_protection_threshold: { title: ['Most means', '多数指'], unit: 'percent', placeholder: '50', when: (rule) => isOn(rule) && rule.enable_overload_protection === true, idle: 0 },
            }),
            needs: [{ title: ['Full share after', '达到全部份额'], sides: [['interval_second']], when: isOn }],
          },
        },
        readiness: { title: ['Readiness', '就绪'], inline: 'bare', layer: plain({ enable: { title: ['Offer /readiness', '提供 /readiness'], help: ['Answers 200 once the instance is registered, for Kubernetes and scripts.', '实例注册后返回 200，供 Kubernetes 和脚本使用。'] } }) },
      }),
    },
    lossless_offline: { title: ['Stop', '停止'], inline: 'bare', layer: plain({ enable: { title: ['Drain before stopping', '停止前摘流'], help: ['Offers /offline: the instance deregisters and finishes its calls.', '提供 /offline：实例先注销并完成已有调用。'] } }) },
  },
}
