/** Layers of plugins that protect. */
import { plain, type Choice } from '../layer'
import { MESSAGE, type PluginLayer, REJECTED } from './plugin-layer'

const lists = (allow: string, deny: string): Choice => ({ choice: ['Rule', '规则'], sides: [{ title: ['Only these may pass', '仅允许'], fields: [allow] }, { title: ['All but these may pass', '仅拒绝'], fields: [deny] }] })

export const security: Record<string, PluginLayer> = {
  cors: {
    layer: plain({
      allow_origins: { title: ['Allowed origins', '允许的来源'], placeholder: 'https://shop.example.com' }, allow_methods: { title: ['Allowed methods', '允许的方法'] }, allow_headers: { title: ['Allowed headers', '允许的请求头'] },
      allow_credential: { title: ['Allow cookies and credentials', '允许 Cookie 和凭证'] },
    }),
  },
  'ip-restriction': {
    layer: plain({
      whitelist: { title: ['Allowed addresses', '允许的地址'], placeholder: '10.0.0.0/8' }, blacklist: { title: ['Blocked addresses', '拒绝的地址'], placeholder: '192.0.2.7' },
      message: MESSAGE,
    }, [lists('whitelist', 'blacklist'), 'message']),
  },
  'ua-restriction': {
    layer: plain({ allowlist: { title: ['Allowed user agents', '允许的 User-Agent'] }, denylist: { title: ['Blocked user agents', '拒绝的 User-Agent'], placeholder: '.*bot.*' }, bypass_missing: { title: ['Pass without User-Agent', '缺少 User-Agent 时放行'] }, message: MESSAGE }, [lists('allowlist', 'denylist'), 'bypass_missing', 'message']),
  },
  'referer-restriction': {
    layer: plain({ whitelist: { title: ['Allowed sites', '允许的站点'], placeholder: '*.example.com' }, blacklist: { title: ['Blocked sites', '拒绝的站点'] }, bypass_missing: { title: ['Pass without Referer', '缺少 Referer 时放行'] }, message: MESSAGE }, [lists('whitelist', 'blacklist'), 'bypass_missing', 'message']),
  },
  'consumer-restriction': {
    layer: plain({
      type: { title: ['Judge by', '判断依据'], choices: { consumer_name: ['Consumer', '消费者'], consumer_group_id: ['Consumer group', '消费者组'], service_id: ['Service', '服务'], route_id: ['Route', '路由'] } },
      whitelist: { title: ['Allowed', '允许'] }, blacklist: { title: ['Refused', '拒绝'] },
    }, ['type', lists('whitelist', 'blacklist')]),
  },
  csrf: { layer: plain({ key: { title: ['Secret', '密钥'] }, expires: { title: ['Token valid for', '令牌有效期'], unit: 'seconds' }, name: { title: ['Name of cookie and header', 'Cookie 与请求头名称'] } }) },
  'uri-blocker': { layer: plain({ block_rules: { title: ['Blocked paths', '阻止的路径'], help: ['Regular expressions.', '正则表达式。'], placeholder: '\\.php$' }, rejected_code: REJECTED, case_insensitive: { title: ['Ignore case', '忽略大小写'] } }) },
  'request-validation': { layer: plain({ body_schema: { title: ['JSON Schema of bodies', '请求体的 JSON Schema'] }, header_schema: { title: ['JSON Schema of headers', '请求头的 JSON Schema'] }, rejected_code: { title: ['Status of refused requests', '拒绝时的状态码'] } }) },
}
