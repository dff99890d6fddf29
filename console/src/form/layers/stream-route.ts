/** Layer of stream routes. */
import { DESC, LABELS, NAME, NOTES, plain, type Layer, PLUGINS } from './layer'
import { SERVICE_ID, TARGET, UPSTREAM, UPSTREAM_ID } from './route'

export const streamRoute: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['name'] },
    { title: ['Match', '匹配'], note: ['Which connections this route takes. Empty fields match all.', '此路由接收哪些连接。空字段表示不限。'], items: ['server_port', 'sni', 'remote_addr', 'server_addr'] },
    { title: ['Target', '目标'], note: ['Where the connections go.', '连接发往何处。'], items: [TARGET] },
    { title: ['Plugins', '插件'], items: ['plugins'] },
    { title: ['Protocol', '协议'], items: ['protocol'], isFolded: true },
    NOTES,
  ],
  fields: {
    name: NAME,
    server_port: { title: ['Port', '端口'], help: ['One of the ports in listen.stream.', 'listen.stream 中的端口之一。'], placeholder: '9100' },
    sni: { title: ['Server name (TLS)', '服务器名称 (TLS)'], placeholder: 'db.example.com' },
    remote_addr: { title: ['Client address', '客户端地址'], help: ['An address or a network.', '地址或网段。'], placeholder: '10.0.0.0/8' },
    server_addr: { title: ['Own address', '本机地址'], help: ['Local address on which the connection arrived.', '连接到达的地址。'], placeholder: '192.0.2.10' },
    upstream: UPSTREAM,
    upstream_id: UPSTREAM_ID,
    service_id: SERVICE_ID,
    plugins: PLUGINS,
    protocol: {
      title: ['Protocol', '协议'],
      layer: plain({ name: { title: ['Protocol', '协议'] }, superior_id: { title: ['Refines stream route', '细化的流路由'], of: 'stream_routes' }, conf: { title: ['Settings', '设置'] }, logger: { title: ['Loggers', '日志'] } }),
    },
    desc: DESC,
    labels: LABELS,
  },
}
