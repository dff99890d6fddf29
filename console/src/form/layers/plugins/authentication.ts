/** Layers of plugins that recognise callers. */
import { plain } from '../layer'
import { HIDE, type PluginLayer, SECRET } from './plugin-layer'

export const authentication: Record<string, PluginLayer> = {
  'key-auth': {
    layer: plain({ header: { title: ['Header with the key', '携带密钥的请求头'] }, query: { title: ['Query parameter with the key', '携带密钥的查询参数'] }, hide_credentials: HIDE }),
    identity: plain({ key: { title: ['Key', '密钥'], help: ['What the client sends. Each consumer has its own.', '客户端发送的密钥，每个消费者各不相同。'] } }),
  },
  'basic-auth': {
    layer: plain({ realm: { title: ['Realm', '域'] }, hide_credentials: HIDE }),
    identity: plain({ username: { title: ['User name', '用户名'] }, password: { title: ['Password', '密码'] } }),
  },
  'jwt-auth': {
    layer: plain({ header: { title: ['Header with the token', '携带令牌的请求头'] }, key_claim_name: { title: ['Claim that names the key', '指明密钥的声明'] }, hide_credentials: HIDE }),
    identity: plain({ key: { title: ['Key', '键'], help: ['Value of the claim that identifies the consumer.', '用于查找消费者的声明值。'] }, algorithm: { title: ['Algorithm', '算法'] }, secret: SECRET, public_key: { title: ['Public key', '公钥'], as: 'pem' } }),
  },
  'hmac-auth': {
    layer: plain({ clock_skew: { title: ['Tolerated clock skew', '允许的时钟偏差'], unit: 'seconds' }, signed_headers: { title: ['Headers that must be signed', '必须签名的请求头'] }, hide_credentials: HIDE }),
    identity: plain({ key_id: { title: ['Key ID', '密钥 ID'] }, secret_key: SECRET }),
  },
  'openid-connect': {
    layer: plain({
      discovery: { title: ['Discovery address', '发现地址'], placeholder: 'https://id.example.com/.well-known/openid-configuration' },
      client_id: { title: ['Client ID', '客户端 ID'] }, client_secret: { title: ['Client secret', '客户端密钥'] }, bearer_only: { title: ['Only check tokens, never redirect', '仅验证令牌，不重定向'] },
    }),
  },
  'forward-auth': {
    layer: plain({
      uri: { title: ['Authorization server', '鉴权服务地址'], placeholder: 'http://127.0.0.1:9000/auth' },
      request_headers: { title: ['Headers to send', '发送给它的请求头'] }, upstream_headers: { title: ['Headers passed on to nodes', '传给节点的请求头'] },
    }),
  },
  opa: { layer: plain({ host: { title: ['Address of OPA', 'OPA 地址'], placeholder: 'http://127.0.0.1:8181' }, policy: { title: ['Policy', '策略'], placeholder: 'httpapi/authz' }, timeout: { title: ['Timeout', '超时'], unit: 'milliseconds' } }) },
  'multi-auth': { layer: plain({ auth_plugins: { title: ['Any of these', '任意一个'] } }) },
}
