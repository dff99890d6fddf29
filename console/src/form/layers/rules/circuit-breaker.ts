/** Form of circuit breakers. */
import { type Layer, lines, type Look, plain } from '../layer'
import { ANY_NAMESPACE, ANY_SERVICE, API, COMPARED_TO, comparison, GENERAL, HEADERS, NOTES, older, RULE_NAME, SHARED } from './shared'

const ERRORS: Look = {
  title: ['Errors', '错误'], help: ['Conditions for a call to count as an error.', '调用计为错误的条件。'],
  layer: plain({
    inputType: { title: ['Look at', '检查对象'], choices: { UNKNOWN: ['Nothing', '无'], RET_CODE: ['Status code', '状态码'], DELAY: ['Duration in ms', '耗时（毫秒）'] } },
    condition: { ...COMPARED_TO, help: ['Ranges as 500~599.', '范围写作 500~599。'] },
  }),
}

const isShare = ({ triggerType }: Record<string, unknown>) => triggerType !== 'CONSECUTIVE_ERROR'
const isCount = ({ triggerType }: Record<string, unknown>) => triggerType === 'CONSECUTIVE_ERROR'

const TRIGGERS: Look = {
  title: ['Opens at', '熔断条件'], help: ['One is enough.', '满足其一即可。'],
  layer: {
    ...lines({
      triggerType: { title: ['Counted', '统计'], choices: { UNKNOWN: ['Nothing', '无'], ERROR_RATE: ['Share of errors', '错误比例'], CONSECUTIVE_ERROR: ['Errors in a row', '连续错误'] } },
      errorPercent: { title: ['Share of errors', '错误比例'], unit: 'percent', placeholder: '50', when: isShare, idle: 0 },
      interval: { title: ['Within', '统计时长'], unit: 'seconds', placeholder: '30', when: isShare, idle: 0 },
      minimumRequest: { title: ['After at least', '最少请求数'], help: ['Requests in that time.', '此时长内的请求数。'], placeholder: '10', when: isShare, idle: 0 },
      errorCount: { title: ['Errors in a row', '连续错误'], placeholder: '5', when: isCount, idle: 0 },
    }, [['triggerType'], ['errorPercent', 'interval', 'minimumRequest'], ['errorCount']]),
    needs: [
      { title: ['Share of errors', '错误比例'], sides: [['errorPercent']], when: ({ triggerType }) => triggerType === 'ERROR_RATE' }, { title: ['Within', '统计时长'], sides: [['interval']], when: ({ triggerType }) => triggerType === 'ERROR_RATE' },
      { title: ['Errors in a row', '连续错误'], sides: [['errorCount']], when: isCount },
    ],
  },
}

const RECOVERY: Look = {
  title: ['Recovery', '恢复'], inline: 'titled', isRow: true,
  layer: plain({ sleepWindow: { title: ['Try again after', '重试间隔'], unit: 'seconds', placeholder: '30' }, consecutiveSuccess: { title: ['Closes after successes', '恢复所需成功数'], placeholder: '3' } }),
}

export const circuitBreaker: Layer = {
  needs: [{ title: ['Breaker', '熔断器'], sides: [['block_configs'], ['triggerCondition']] }],
  sections: [
    GENERAL,
    { title: ['Scope', '范围'], items: ['ruleMatcher', 'level'] },
    { title: ['Breaker', '熔断'], items: ['block_configs', 'errorConditions', 'triggerCondition', 'maxEjectionPercent'] },
    { title: ['Recovery', '恢复'], items: ['recoverCondition', 'faultDetectConfig'] },
    { title: ['While it is open', '熔断期间'], items: ['fallbackConfig'], isFolded: true },
    NOTES,
  ],
  fields: {
    ...SHARED,
    level: { title: ['Breaks for', '熔断粒度'], choices: { UNKNOWN: ['Not set', '未设置'], SERVICE: ['The whole service', '整个服务'], METHOD: ['One interface', '单个接口'], GROUP: ['A group of instances', '实例组'], INSTANCE: ['One instance', '单个实例'] } },
    ruleMatcher: {
      title: ['Scope', '范围'], inline: 'bare',
      layer: plain({
        source: { title: ['Callers', '主调方'], inline: 'titled', isRow: true, layer: plain({ service: ANY_SERVICE, namespace: ANY_NAMESPACE }) },
        destination: {
          title: ['Called service', '被调服务'], inline: 'titled',
          layer: { ...lines({ service: ANY_SERVICE, namespace: ANY_NAMESPACE, method: comparison(['Interface', '接口'], ['* is every interface.', '* 表示所有接口。']) }, [['service', 'namespace'], ['method']]), needs: [{ title: ['Called service', '被调服务'], sides: [['service']] }] },
        },
      }),
    },
    block_configs: {
      title: ['Breakers', '熔断器'],
      layer: { ...plain({ name: RULE_NAME, error_conditions: ERRORS, trigger_conditions: TRIGGERS, api: API, recoverCondition: RECOVERY }), needs: [{ title: ['Opens at', '熔断条件'], sides: [['trigger_conditions']] }] },
    },
    errorConditions: older('Errors (older form)', '错误（旧格式）', { layer: ERRORS.layer }), triggerCondition: older('Opens at (older form)', '熔断条件（旧格式）', { layer: TRIGGERS.layer }),
    recoverCondition: { ...RECOVERY, layer: { ...(RECOVERY.layer as Layer), needs: [{ title: ['Try again after', '重试间隔'], sides: [['sleepWindow']] }] } },
    maxEjectionPercent: { title: ['Largest share of instances cut off', '最大熔断实例比例'], unit: 'percent', placeholder: '50' },
    faultDetectConfig: { title: ['Fault detection', '主动探测'], inline: 'bare', layer: plain({ enable: { title: ['Probe before closing', '恢复前主动探测'], help: ['Uses the fault detection rules of the service.', '使用该服务的探测规则。'] } }) },
    fallbackConfig: {
      title: ['Response', '应答'], inline: 'bare',
      layer: plain({
        enable: { title: ['Answer for the service', '降级应答'] },
        response: { title: ['Response', '应答'], inline: 'titled', when: ({ enable }) => enable === true, layer: plain({ code: { title: ['Status', '状态码'], placeholder: '503' }, headers: HEADERS, body: { title: ['Body', '应答体'], as: 'lines' } }) },
      }),
    },
    regex_separate: { title: ['Count each match of a pattern by itself', '正则匹配分别统计'] },
  },
}
