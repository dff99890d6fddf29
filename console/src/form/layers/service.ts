/** Layer of services. */
import { DESC, LABELS, NAME, NOTES, type Layer, PLUGINS } from './layer'
import { TARGET, UPSTREAM, UPSTREAM_ID, WEBSOCKET } from './route'

export const service: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['name', 'hosts'] },
    { title: ['Target', '目标'], note: ['Where requests of its routes go.', '其路由的请求发往何处。'], items: [{ ...TARGET, sides: TARGET.sides.slice(0, 2) }] },
    { title: ['Plugins', '插件'], note: ['They run for all routes of the service.', '对该服务的所有路由生效。'], items: ['plugins'] },
    { title: ['WebSocket', 'WebSocket'], items: ['enable_websocket'], isFolded: true },
    NOTES,
  ],
  fields: {
    name: NAME,
    hosts: { title: ['Hosts', '主机'], help: ['For its routes that name none. Empty: any host.', '用于未指定主机的路由。留空：任意主机。'], placeholder: 'shop.example.com' },
    upstream: UPSTREAM,
    upstream_id: UPSTREAM_ID,
    plugins: PLUGINS,
    enable_websocket: WEBSOCKET,
    desc: DESC,
    labels: LABELS,
  },
}
