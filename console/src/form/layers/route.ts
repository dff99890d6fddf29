/** Layer of routes. */
import { DESC, LABELS, NAME, NOTES, type Choice, type Layer, type Look, PLUGINS } from './layer'
import { inlineUpstream, TIMEOUT } from './upstream'

/** Where requests go; services offer the first two. */
export const UPSTREAM: Look = { title: ['Nodes', '节点'], layer: inlineUpstream, inline: 'bare' }
export const UPSTREAM_ID: Look = { title: ['Upstream', '上游'], help: ['A group of nodes that several routes share.', '多个路由共用的一组节点。'], of: 'upstreams' }
export const SERVICE_ID: Look = { title: ['Service', '服务'], help: ['Takes its upstream, hosts and plugins from there.', '沿用该服务的上游、主机和插件。'], of: 'services' }
export const TARGET: Choice = {
  choice: ['Send requests to', '请求发往'],
  sides: [{ title: ['Nodes listed here', '在此列出的节点'], fields: ['upstream'] }, { title: ['An upstream', '已有上游'], fields: ['upstream_id'] }, { title: ['A service', '已有服务'], fields: ['service_id'] }],
}

export const PLUGIN_CONFIG_ID: Look = { title: ['Shared plugins', '共用插件'], help: ['A plugin config, for plugins that are not set above.', '插件配置，提供上面未设置的插件。'], of: 'plugin_configs' }
export const WEBSOCKET: Look = { title: ['Allow WebSocket', '允许 WebSocket'] }
export const STATUS: Look = { title: ['Enabled', '启用'], as: 'onOff' }

export const route: Layer = {
  needs: [
    { title: ['Path', '路径'], sides: [['uri'], ['uris']] },
    { title: ['Target, or a plugin that answers', '目标，或能够应答的插件'], sides: [['upstream'], ['upstream_id'], ['service_id'], ['plugins'], ['script']] },
  ],
  sections: [
    { title: ['General', '基本'], items: ['name', 'status'] },
    {
      title: ['Match', '匹配'], note: ['Which requests this route takes.', '此路由接收哪些请求。'],
      items: [
        { choice: ['Paths', '路径'], sides: [{ title: ['One path', '一个路径'], fields: ['uri'] }, { title: ['Several paths', '多个路径'], fields: ['uris'] }] },
        { choice: ['Hosts', '主机'], sides: [{ title: ['One host', '一个主机'], fields: ['host'] }, { title: ['Several hosts', '多个主机'], fields: ['hosts'] }] },
        'methods',
      ],
    },
    { title: ['Target', '目标'], note: ['Where the requests go.', '请求发往何处。'], items: [TARGET] },
    { title: ['Plugins', '插件'], note: ['What the gateway does with requests and responses.', '途中对请求和应答所做的处理。'], items: ['plugins', 'plugin_config_id'] },
    {
      title: ['More conditions', '更多条件'], note: ['For routes that path and host alone do not tell apart.', '路径和主机不足以判断时使用。'], isFolded: true,
      items: [
        'vars',
        { choice: ['Clients', '客户端'], sides: [{ title: ['One address', '一个地址'], fields: ['remote_addr'] }, { title: ['Several addresses', '多个地址'], fields: ['remote_addrs'] }] },
        'priority',
      ],
    },
    { title: ['Timeouts and WebSocket', '超时与 WebSocket'], items: ['timeout', 'enable_websocket'], isFolded: true },
    NOTES,
  ],
  fields: {
    name: NAME,
    status: STATUS,
    uri: { title: ['Path', '路径'], help: ['Exact, or with * at the end for all below it.', '精确路径；以 * 结尾则包含其下全部。'], placeholder: '/orders/*' },
    uris: { title: ['Paths', '路径'], help: ['Exact, or with * at the end for all below it.', '精确路径；以 * 结尾则包含其下全部。'], placeholder: '/orders/*' },
    host: { title: ['Host', '主机'], help: ['Empty: any host.', '留空：任意主机。'], placeholder: 'shop.example.com' },
    hosts: { title: ['Hosts', '主机'], help: ['Empty: any host.', '留空：任意主机。'], placeholder: '*.example.com' },
    methods: { title: ['Methods', '方法'], help: ['No choice means all methods.', '不选：全部方法。'] },
    upstream: UPSTREAM,
    upstream_id: UPSTREAM_ID,
    service_id: SERVICE_ID,
    plugins: PLUGINS,
    plugin_config_id: PLUGIN_CONFIG_ID,
    vars: { title: ['Conditions', '条件'], as: 'conditions' },
    remote_addr: { title: ['Client address', '客户端地址'], help: ['An address or a network. Empty: any client.', '地址或网段。留空：任意客户端。'], placeholder: '10.0.0.0/8' },
    remote_addrs: { title: ['Client addresses', '客户端地址'], placeholder: '10.0.0.0/8' },
    priority: { title: ['Priority', '优先级'], help: ['Of routes with the same path the highest goes first.', '路径相同时，数值最大的路由优先。'] },
    timeout: { ...TIMEOUT, help: ["Instead of the upstream's.", '代替上游的超时。'] },
    enable_websocket: WEBSOCKET,
    desc: DESC,
    labels: LABELS,
  },
}
