/** Form of routing rules: whose calls go where. */
import { type Layer, plain } from '../layer'
import { CALLERS, DESTINATIONS, GENERAL, NAMED, NAMESPACE, NOTES, OF_SERVICE, older, RULE_NAME, SERVICE, SHARED, types } from './shared'

export const routing: Layer = {
  needs: [NAMED],
  sections: [GENERAL, { title: ['Routing', '路由'], note: ['Tried in order; the first that matches a call decides.', '按顺序尝试，首个匹配者生效。'], items: ['routing_config', 'routing_policy'] }, NOTES],
  fields: {
    ...SHARED,
    priority: { ...SHARED.priority, help: ['0 to 10. Rules with smaller numbers come first.', '0 至 10，数字小的规则优先。'] },
    routing_policy: older('Type of routing', '路由类型', { idle: ['RulePolicy', 'MetadataPolicy'] }),
    routing_config: {
      title: ['Routing', '路由'], inline: 'bare',
      shapes: {
        title: ['Routed by', '路由依据'],
        of: {
          RuleRoutingConfig: { title: ['Conditions on the call', '调用条件'], beside: { routing_policy: 'RulePolicy' } },
          MetadataRoutingConfig: { title: ['Labels of the instances', '实例标签'], beside: { routing_policy: 'MetadataPolicy' } },
        },
      },
      layer: {
        needs: [{ title: ['A routing rule', '路由规则'], sides: [['rules'], ['destinations'], ['service']] }],
        sections: [{ title: ['', ''], items: ['rules', 'service', 'namespace', 'labels', 'failover', 'sources', 'destinations', '@type'] }],
        fields: {
          '@type': types('RuleRoutingConfig', 'MetadataRoutingConfig'),
          rules: { title: ['Rules', '规则'], layer: { ...plain({ name: RULE_NAME, sources: CALLERS, destinations: DESTINATIONS }), needs: [{ title: ['Destination', '目标'], sides: [['destinations']] }] } },
          service: SERVICE, namespace: NAMESPACE,
          labels: { title: ['Labels', '标签'], help: ['Calls go to instances that have the same values.', '调用发往值相同的实例。'] },
          failover: {
            title: ['If no instance matches', '没有匹配实例时'], inline: 'titled',
            layer: plain({
              failoverRange: { title: ['Use', '使用'], choices: { ALL: ['All instances', '全部实例'], OTHERS: ['Instances without these labels', '没有这些标签的实例'], OTHER_KEYS: ['Instances with the labels below', '具有以下标签的实例'] } },
              labels: { title: ['Labels', '标签'], when: ({ failoverRange }) => failoverRange === 'OTHER_KEYS' },
            }),
          },
          sources: older('Callers (older form)', '主调方（旧格式）', { layer: CALLERS.layer }), destinations: older('Destinations (older form)', '目标（旧格式）', { layer: DESTINATIONS.layer }),
        },
      },
    },
  },
}

const LEVELS = { UNKNOWN: ['Any place', '任意位置'], CAMPUS: ['The same campus', '同园区'], ZONE: ['The same zone', '同可用区'], REGION: ['The same region', '同地域'], ALL: ['Any place', '任意位置'] } as const

export const nearby: Layer = {
  needs: [NAMED],
  sections: [GENERAL, { title: ['Nearby routing', '就近路由'], items: ['routing_config', 'routing_policy'] }, NOTES],
  fields: {
    ...SHARED,
    priority: { ...SHARED.priority, help: ['0 to 10. Rules with smaller numbers come first.', '0 至 10，数字小的规则优先。'] },
    routing_policy: older('Type of routing', '路由类型', { idle: 'NearbyPolicy' }),
    routing_config: {
      title: ['Nearby routing', '就近路由'], inline: 'bare',
      layer: {
        needs: [OF_SERVICE],
        sections: [{ title: ['', ''], items: ['service', 'namespace', 'match_level', 'max_match_level', 'strict_nearby', '@type'] }],
        fields: {
          '@type': types('NearbyRoutingConfig'), service: SERVICE, namespace: NAMESPACE,
          match_level: { title: ['Prefer instances in', '优先选择'], choices: LEVELS }, max_match_level: { title: ['Or else as far as', '最远允许'], choices: LEVELS },
          strict_nearby: { title: ['Fail if none is near enough', '没有足够近的实例时失败'], help: ['Off: any instance is used then.', '关闭：此时使用任意实例。'] },
        },
      },
    },
  },
}
