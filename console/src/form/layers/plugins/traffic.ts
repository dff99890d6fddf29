/** Layers of plugins that steer and limit traffic. */
import { plain, type Choice, type Layer, type Look } from '../layer'
import { inlineUpstream } from '../upstream'
import { type PluginLayer, REJECTED } from './plugin-layer'

const KEY: Look = {
  title: ['Count by', '计数依据'],
  choices: { remote_addr: ['Client address', '客户端地址'], consumer_name: ['Consumer', '消费者'], http_host: ['Host', '主机'], uri: ['Path', '路径'], server_addr: ['The gateway as a whole', '整个网关'] },
}

/** The three parts of a limit by windows of time. */
const COUNT: Look = { title: ['Requests allowed', '允许的请求数'], placeholder: '100' }
const WINDOW: Look = { title: ['Per', '时间窗口'], unit: 'seconds' }

const RULE: Layer = plain({ count: COUNT, time_window: WINDOW, key: { title: ['Count by', '计数依据'], placeholder: '$remote_addr' } })

const ONE_OR_MORE: Choice = { choice: ['Limits', '限制'], sides: [{ title: ['One limit', '一个限制'], fields: ['count', 'time_window'] }, { title: ['Several limits', '多个限制'], fields: ['rules'] }] }

export const traffic: Record<string, PluginLayer> = {
  'limit-count': {
    start: { time_window: 60, rejected_code: 429 },
    layer: plain({ count: COUNT, time_window: WINDOW, rules: { title: ['Limits', '限制'], layer: RULE, isRow: true }, key: KEY, rejected_code: REJECTED }, [ONE_OR_MORE, 'key', 'rejected_code']),
  },
  'limit-req': {
    start: { burst: 0, key: 'remote_addr', rejected_code: 429 },
    layer: plain({ rate: { title: ['Requests per second', '每秒请求数'], placeholder: '10' }, burst: { title: ['More, delayed', '突发（延迟处理）'], help: ['Requests above the rate that wait instead of being refused.', '超过速率但排队等待而不被拒绝的请求数。'] }, key: KEY, rejected_code: REJECTED }),
  },
  'limit-conn': {
    start: { burst: 0, default_conn_delay: 0.1, key: 'remote_addr', rejected_code: 429 },
    layer: plain({
      conn: { title: ['Requests at a time', '并发请求数'], placeholder: '50' }, burst: { title: ['More, delayed', '突发（延迟处理）'] }, rules: { title: ['Limits', '限制'] }, key: KEY, rejected_code: REJECTED,
    }, [{ choice: ['Limits', '限制'], sides: [{ title: ['One limit', '一个限制'], fields: ['conn', 'burst'] }, { title: ['Several limits', '多个限制'], fields: ['rules'] }] }, 'key', 'rejected_code']),
  },
  'traffic-split': {
    layer: plain({
      rules: {
        title: ['Rules', '规则'],
        layer: plain({
          match: { title: ['For requests', '适用的请求'], help: ['Without conditions: all.', '没有条件则为全部。'] },
          weighted_upstreams: {
            title: ['Split', '分流'],
            layer: plain({ weight: { title: ['Share', '份额'] }, upstream_id: { title: ['Upstream', '上游'], help: ["Empty: the route's own.", '留空：路由自己的上游。'], of: 'upstreams' }, upstream: { title: ['Nodes listed here', '在此列出的节点'], layer: inlineUpstream } }, ['weight', 'upstream_id']),
          },
        }),
      },
    }),
  },
  'proxy-mirror': { layer: plain({ host: { title: ['Copy requests to', '镜像到'], placeholder: 'http://127.0.0.1:9797' }, path: { title: ['Other path', '改用路径'] }, sample_ratio: { title: ['Share of requests', '采样比例'], help: ['1 is all of them.', '1 表示全部。'] } }) },
  'proxy-cache': {
    start: { cache_strategy: 'memory', cache_zone: 'memory_cache' },
    layer: plain({ cache_ttl: { title: ['Keep for', '缓存时间'], unit: 'seconds' }, cache_key: { title: ['Cache key', '缓存键'] }, cache_http_status: { title: ['Cached statuses', '缓存的状态码'] } }),
  },
  'api-breaker': {
    start: { break_response_code: 503 },
    layer: plain({
      break_response_code: { title: ['Status while open', '熔断时的状态码'] }, max_breaker_sec: { title: ['Longest open time', '最长熔断'], unit: 'seconds' },
      unhealthy: { title: ['Opens when', '熔断条件'], layer: plain({ http_statuses: { title: ['Statuses', '状态码'] }, failures: { title: ['In a row', '连续次数'] } }) },
      healthy: { title: ['Closes when', '恢复条件'], layer: plain({ http_statuses: { title: ['Statuses', '状态码'] }, successes: { title: ['In a row', '连续次数'] } }) },
    }),
  },
  'client-control': { layer: plain({ max_body_size: { title: ['Longest request body', '请求体上限'], unit: 'bytes' } }) },
  'real-ip': { layer: plain({ source: { title: ['Address from', '地址来源'], placeholder: 'http_x_forwarded_for' }, trusted_addresses: { title: ['Trusted proxies', '受信任的代理'], placeholder: '10.0.0.0/8' }, recursive: { title: ['Skip trusted proxies in lists', '在列表中跳过受信任的代理'] } }) },
  workflow: { layer: plain({ rules: { title: ['Rules', '规则'], layer: plain({ case: { title: ['When', '条件'] }, actions: { title: ['Then', '动作'] } }) } }) },
}
