/** Layers of ShenYu's objects, and of the settings that its plugins read. */
import { plain, type Layer, type Look, type Section } from './layer'

const ENABLED: Look = { title: ['Enabled', '启用'] }
const SORT: Look = { title: ['Order', '顺序'], help: ['Lower numbers come first.', '数值小的优先。'] }
const LOGGED: Look = { title: ['Log matching requests', '记录命中的请求'] }
const RESTFUL: Look = { title: ['Match paths with variables', '匹配带变量的路径'] }

const MATCH_MODE: Look = {
  title: ['Requests must match', '请求须满足'],
  choices: { 0: ['All conditions', '全部条件'], 1: ['Any condition', '任一条件'] },
}

/** What conditions look at that have a name of their own. */
const NAMED = new Set(['header', 'query', 'cookie', 'post'])

const CONDITIONS: Look = {
  title: ['Conditions', '条件'],
  isRow: true,
  layer: plain({
    paramType: {
      title: ['Look at', '对象'],
      choices: {
        uri: ['Path', '路径'], header: ['Header', '请求头'], query: ['Query parameter', '查询参数'], post: ['Body field', '请求体字段'], host: ['Host', '主机'], ip: ['Client address', '客户端地址'],
        cookie: ['Cookie', 'Cookie'], req_method: ['Method', '方法'], domain: ['Domain', '域名'],
      },
    },
    paramName: { title: ['Name', '名称'], idle: '/', when: ({ paramType }) => NAMED.has(String(paramType)) },
    operator: {
      title: ['Comparison', '比较'],
      choices: {
        startsWith: ['starts with', '开头是'], endsWith: ['ends with', '结尾是'], '=': ['equals', '等于'], match: ['matches (wildcards)', '匹配（通配符）'], pathPattern: ['matches path pattern', '匹配路径模式'],
        regex: ['matches regex', '匹配正则'], contains: ['contains', '包含'], exclude: ['does not contain', '不包含'], isBlank: ['is empty', '为空'], TimeBefore: ['is before', '早于'], TimeAfter: ['is after', '晚于'],
      },
    },
    paramValue: { title: ['Value', '值'], placeholder: '/orders/' },
  }),
}

const GENERAL: Section = { title: ['General', '基本'], items: ['name', 'enabled'] }

export const selector: Layer = {
  sections: [
    { ...GENERAL, items: ['name', 'pluginId', 'enabled'] },
    { title: ['Match', '匹配'], note: ['Which requests the selector takes.', '选择器接收哪些请求。'], items: ['type', 'matchMode', 'selectorConditions'] },
    { title: ['Plugin settings', '插件设置'], note: ['What the plugin does with them.', '插件对其所做的处理。'], items: ['handle'] },
    { title: ['Order and logging', '顺序与日志'], items: ['sort', 'continued', 'loged', 'matchRestful'], isFolded: true },
  ],
  fields: {
    name: { title: ['Name', '名称'], placeholder: 'orders' },
    pluginId: { title: ['Plugin', '插件'], of: 'shenyu-plugin' },
    enabled: ENABLED,
    type: { title: ['Applies to', '接收'], choices: { 0: ['Every request', '全部请求'], 1: ['Requests that match', '匹配的请求'] } },
    matchMode: { ...MATCH_MODE, when: ({ type }) => type !== 0 },
    selectorConditions: { ...CONDITIONS, when: ({ type }) => type !== 0 },
    sort: SORT,
    continued: { title: ['Check its rules', '继续匹配规则'], help: ['Off: the selector alone decides.', '关闭：仅由选择器决定。'] },
    loged: LOGGED,
    matchRestful: RESTFUL,
  },
}

export const rule: Layer = {
  sections: [
    { ...GENERAL, items: ['name', 'selectorId', 'enabled'] },
    { title: ['Match', '匹配'], note: ['Which of the requests of its selector the rule takes.', '规则接收其选择器中的哪些请求。'], items: ['matchMode', 'ruleConditions'] },
    { title: ['Plugin settings', '插件设置'], note: ['What the plugin does with them.', '插件对其所做的处理。'], items: ['handle'] },
    { title: ['Order and logging', '顺序与日志'], items: ['sort', 'loged', 'matchRestful'], isFolded: true },
  ],
  fields: {
    name: { title: ['Name', '名称'], placeholder: 'orders' },
    selectorId: { title: ['Selector', '选择器'], of: 'shenyu-selector' },
    enabled: ENABLED,
    matchMode: MATCH_MODE,
    ruleConditions: CONDITIONS,
    sort: SORT,
    loged: LOGGED,
    matchRestful: RESTFUL,
  },
}

const plugin: Layer = {
  sections: [{ ...GENERAL, items: ['name', 'enabled', 'sort'] }, { title: ['Settings', '设置'], items: ['config'] }, { title: ['Console', '控制台'], items: ['role'], isFolded: true }],
  fields: { name: { title: ['Name', '名称'] }, enabled: ENABLED, sort: SORT, role: { title: ['Heading', '分类'] } },
}

const metaData: Layer = {
  sections: [
    { title: ['Call', '调用'], items: ['path', 'rpcType', 'serviceName', 'methodName', 'parameterTypes', 'rpcExt'] },
    { title: ['Application', '应用'], items: ['appName', 'contextPath', 'enabled'] },
    { title: ['Notes', '备注'], items: ['pathDesc', 'ruleName'], isFolded: true },
  ],
  fields: {
    path: { title: ['Path', '路径'], placeholder: '/orders/find' },
    rpcType: { title: ['Protocol', '协议'], choices: { http: ['HTTP', 'HTTP'], dubbo: ['Dubbo', 'Dubbo'], grpc: ['gRPC', 'gRPC'], springCloud: ['Spring Cloud', 'Spring Cloud'], sofa: ['SOFA', 'SOFA'], tars: ['Tars', 'Tars'], motan: ['Motan', 'Motan'] } },
    serviceName: { title: ['Service', '服务'], placeholder: 'orders.Orders' },
    methodName: { title: ['Method', '方法'], placeholder: 'find' },
    parameterTypes: { title: ['Parameter types', '参数类型'] },
    rpcExt: {
      title: ['Call settings', '调用设置'],
      layer: plain({ timeout: { title: ['Timeout', '超时'], unit: 'milliseconds' }, retries: { title: ['Retries', '重试次数'] }, group: { title: ['Group', '分组'] }, version: { title: ['Version', '版本'] }, url: { title: ['Address', '地址'] } }),
    },
    appName: { title: ['Application', '应用'], placeholder: 'orders' },
    contextPath: { title: ['Context path', '上下文路径'], placeholder: '/orders' },
    enabled: ENABLED,
    pathDesc: { title: ['Description', '描述'] },
    ruleName: { title: ['Name of the rule', '规则名称'] },
  },
}

const appAuth: Layer = {
  sections: [
    { title: ['Key', '密钥'], items: ['appKey', 'appSecret', 'enabled'] },
    { title: ['Access', '访问'], items: ['open', 'authPathList', 'authParamList'] },
    { title: ['Owner', '所有者'], items: ['userId', 'phone', 'extInfo'], isFolded: true },
  ],
  fields: {
    appKey: { title: ['Key', '密钥'] },
    appSecret: { title: ['Secret', '密文'] },
    enabled: ENABLED,
    open: { title: ['Only the paths below', '仅限以下路径'] },
    authPathList: { title: ['Paths', '路径'], isRow: true, layer: plain({ appName: { title: ['Application', '应用'] }, path: { title: ['Path', '路径'], placeholder: '/orders/**' }, enabled: { title: ['Open', '开放'] } }) },
    authParamList: { title: ['Values for nodes', '告知节点'], isRow: true, layer: plain({ appName: { title: ['Application', '应用'] }, appParam: { title: ['Text', '内容'] } }) },
    userId: { title: ['Owner', '所有者'] },
    phone: { title: ['Phone', '电话'] },
    extInfo: { title: ['Note', '备注'] },
  },
}

export const SHENYU_LAYERS: Record<string, Layer> = { selector, rule, plugin, 'meta-data': metaData, appAuth }

/** Nodes of divide, gRPC, Dubbo and WebSocket, which differ in the name of the address. */
const nodes = (address: string): Look => ({
  title: ['Nodes', '节点'], help: ['Where requests are sent. Leave it empty where services register themselves.', '请求发往何处。服务自行注册时留空。'], isRow: true,
  layer: plain({
    [address]: { title: ['Address', '地址'], placeholder: '10.0.0.1:8080' }, weight: { title: ['Weight', '权重'], placeholder: '50' },
    protocol: { title: ['Scheme', '协议'], choices: { 'http://': ['http://', 'http://'], 'https://': ['https://', 'https://'] } }, status: { title: ['Accepts requests', '接收请求'] },
    warmup: { title: ['Warm-up', '预热'], unit: 'milliseconds' }, gray: { title: ['Gray node', '灰度节点'] }, timestamp: { title: ['Started at (ms)', '启动时间（毫秒）'] },
  }, [address, 'weight', 'protocol', 'status']),
})

/** How requests are sent to nodes: settings of a rule. */
const SENDING: Look = {
  title: ['How requests are sent', '请求发送方式'],
  inline: 'bare',
  layer: plain({
    loadBalance: {
      title: ['Load balancing', '负载均衡'],
      choices: { random: ['Random, by weight', '按权重随机'], roundRobin: ['Round robin', '轮询'], hash: ['By client address', '按客户端地址哈希'], leastActive: ['Fewest requests in flight', '最少活动请求'], p2c: ['Better of two', '两者取优 (P2C)'], shortestResponse: ['Shortest response time', '最快响应'] },
    },
    timeout: { title: ['Timeout', '超时'], unit: 'milliseconds' }, retry: { title: ['Retries', '重试次数'] },
    retryStrategy: { title: ['Retry at', '重试位置'], choices: { current: ['The same node', '同一节点'], failover: ['Another node', '其他节点'], fixed: ['The same node, after a pause', '同一节点，固定间隔'], exponential: ['The same node, after growing pauses', '同一节点，间隔递增'] } },
    headerMaxSize: { title: ['Longest header', '请求头上限'], unit: 'bytes' }, requestMaxSize: { title: ['Longest body', '请求体上限'], unit: 'bytes' },
  }, ['loadBalance', 'timeout', 'retry', 'retryStrategy']),
}

interface Settings { config?: Look; selector?: Look; rule?: Look }

/** Settings of plugins by their scope; a plugin that is not here is drawn from its form's description. */
export const SETTINGS: Record<string, Settings | undefined> = {
  divide: { selector: nodes('upstreamUrl'), rule: SENDING },
  grpc: { selector: nodes('upstreamUrl'), rule: SENDING },
  websocket: { selector: nodes('url'), rule: SENDING },
  dubbo: { selector: nodes('upstreamUrl'), rule: { title: ['Call', '调用'], inline: 'bare', layer: plain({ timeout: { title: ['Timeout', '超时'], unit: 'milliseconds' }, retries: { title: ['Retries', '重试次数'] } }) } },
  springCloud: { selector: { title: ['Service', '服务'], layer: plain({ serviceId: { title: ['Service', '服务'], placeholder: 'orders' }, gray: { title: ['Gray nodes only', '仅灰度节点'] }, divideUpstreams: nodes('upstreamUrl') }) }, rule: SENDING },
  rateLimiter: {
    rule: {
      title: ['Limit', '限流'],
      inline: 'bare',
      layer: plain({
        algorithmName: { title: ['Algorithm', '算法'], choices: { slidingWindow: ['Sliding window', '滑动窗口'], leakyBucket: ['Leaky bucket', '漏桶'], concurrent: ['Requests at a time', '并发数'], tokenBucket: ['Token bucket', '令牌桶'] } },
        replenishRate: { title: ['Requests per second', '每秒请求数'] }, burstCapacity: { title: ['Burst', '突发容量'] },
        keyResolverName: { title: ['Count by', '计数依据'], choices: { WHOLE_KEY_RESOLVER: ['All requests together', '全部请求'], REMOTE_ADDRESS_KEY_RESOLVER: ['Client address', '客户端地址'] } },
        requestCount: { title: ['Tokens per request', '每请求令牌数'] },
      }, ['algorithmName', 'replenishRate', 'burstCapacity', 'keyResolverName']),
    },
  },
  waf: {
    config: { title: ['Mode', '模式'], inline: 'bare', layer: plain({ model: { title: ['Mode', '模式'], choices: { black: ['Only rules refuse', '仅规则拒绝'], mixed: ['Rules decide, others pass', '混合模式'] } } }) },
    rule: { title: ['Decision', '处理'], inline: 'bare', layer: plain({ permission: { title: ['Requests are', '请求'], choices: { reject: ['Refused', '拒绝'], allow: ['Allowed', '允许'] } }, statusCode: { title: ['Status when refused', '拒绝时的状态码'], placeholder: '403' } }) },
  },
  sentinel: {
    rule: {
      title: ['Flow control', '流量控制'],
      inline: 'bare',
      layer: plain({
        flowRuleEnable: { title: ['Limit the flow', '启用限流'], as: 'onOff' }, flowRuleGrade: { title: ['Limit by', '限流依据'], choices: { 1: ['Requests per second', '每秒请求数'], 0: ['Requests at a time', '并发数'] } }, flowRuleCount: { title: ['Limit', '阈值'] },
        flowRuleControlBehavior: { title: ['Above the limit', '超出时'], choices: { 0: ['Refuse', '拒绝'], 1: ['Warm up', '预热'], 2: ['Queue', '排队'], 3: ['Warm up and queue', '预热并排队'] } },
        degradeRuleEnable: { title: ['Circuit breaker', '启用熔断'], as: 'onOff' }, degradeRuleGrade: { title: ['Open by', '熔断依据'], choices: { 0: ['Slow responses', '慢响应'], 1: ['Share of errors', '错误比例'], 2: ['Number of errors', '错误数'] } }, degradeRuleCount: { title: ['Threshold', '熔断阈值'] },
        degradeRuleTimeWindow: { title: ['Open for', '熔断时长'], unit: 'seconds' }, fallbackUri: { title: ['Fallback path', '降级路径'] },
      }),
    },
  },
  resilience4j: {
    rule: {
      title: ['Limit and circuit breaker', '限流与熔断'],
      inline: 'bare',
      layer: plain({
        limitForPeriod: { title: ['Requests per period', '每周期请求数'] }, limitRefreshPeriod: { title: ['Period', '周期'], unit: 'milliseconds' }, timeoutDurationRate: { title: ['Longest wait', '最长等待'], unit: 'milliseconds' },
        circuitEnable: { title: ['Circuit breaker', '启用熔断'], as: 'onOff' }, failureRateThreshold: { title: ['Opens at failures of', '熔断失败率'], unit: 'percent' },
        slidingWindowType: { title: ['Judge the last', '统计窗口'], choices: { 0: ['Requests', '请求数'], 1: ['Seconds', '秒'] } }, fallbackUri: { title: ['Fallback path', '降级路径'] },
      }),
    },
  },
  rewrite: { rule: { title: ['New path', '新路径'], inline: 'bare', layer: plain({ regex: { title: ['Pattern', '模式'], placeholder: '/api/(.*)' }, replace: { title: ['Becomes', '替换为'], placeholder: '/$1' }, percentage: { title: ['Share of requests', '请求比例'], unit: 'percent' } }) } },
  redirect: { rule: { title: ['Redirect', '重定向'], inline: 'bare', layer: plain({ redirectURI: { title: ['To', '目标'], placeholder: 'https://example.com/' }, httpStatusCode: { title: ['Status', '状态码'] } }) } },
  contextPath: { rule: { title: ['Context path', '上下文路径'], inline: 'bare', layer: plain({ contextPath: { title: ['Remove prefix', '去除前缀'], placeholder: '/orders' }, addPrefix: { title: ['Add prefix', '添加前缀'] } }) } },
  mock: { rule: { title: ['Answer', '应答'], inline: 'bare', layer: plain({ httpStatusCode: { title: ['Status', '状态码'] }, responseContent: { title: ['Body', '应答体'], as: 'lines' } }) } },
}
