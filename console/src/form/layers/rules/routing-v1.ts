/** Form of routing of the first version: one object per service. */
import { type Layer, type Look, plain } from '../layer'
import { CALLERS_V1, DESTINATIONS_V1, NAMESPACE, OF_NAMESPACE, OF_SERVICE, older, SERVICE } from './shared'

const routes = (title: Look['title'], help: Look['help']): Look => ({
  title, help,
  layer: { ...plain({ sources: CALLERS_V1, destinations: DESTINATIONS_V1, extendInfo: { title: ['Notes of tools', '工具备注'] }, metadata: { title: ['Labels', '标签'] } }, ['sources', 'destinations']), needs: [{ title: ['Destination', '目标'], sides: [['destinations']] }] },
})

export const routingV1: Layer = {
  needs: [OF_SERVICE, OF_NAMESPACE, { title: ['Calls to or from the service', '调入或调出规则'], sides: [['inbounds'], ['outbounds']], isOfNew: true }],
  sections: [
    { title: ['Service', '服务'], items: ['service', 'namespace'] },
    { title: ['Routing', '路由'], note: ['Tried in order; the first that matches a call decides.', '按顺序尝试，首个匹配者生效。'], items: ['inbounds', 'outbounds', 'rules'] },
  ],
  fields: {
    service: SERVICE, namespace: NAMESPACE,
    inbounds: routes(['Calls to the service', '调入'], ['Where calls of others go.', '其他服务的调用发往何处。']), outbounds: routes(['Calls from the service', '调出'], ['Where its own calls go.', '自身的调用发往何处。']),
    rules: older('Rules of the second version', '第二版规则'), service_token: older('Token of the service', '服务令牌'),
  },
}
