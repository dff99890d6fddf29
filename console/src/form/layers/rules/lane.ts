/** Form of lanes: which calls are marked, and the services among which they stay in their lane. */
import { type Layer, type Look, plain } from '../layer'
import { CONDITIONS, DESTINATIONS, labels, NAMESPACE, NOTES, older, ORDER, SERVICE, SHARED, types } from './shared'

const GATEWAY = 'polarismesh.cn/gateway/spring-cloud-gateway'
const OF_SERVICE = 'polarismesh.cn/service'

const ENTRIES: Look = {
  title: ['Entry points', '流量入口'], help: ['Where calls are assigned to a lane.', '在此将调用划入泳道。'],
  layer: plain({
    selector: {
      title: ['Entry point', '流量入口'], inline: 'bare',
      shapes: {
        title: ['Calls enter at', '入口类型'],
        of: { ServiceSelector: { title: ['A service', '微服务'], beside: { type: OF_SERVICE } }, ServiceGatewaySelector: { title: ['A gateway (Spring Cloud)', '网关（Spring Cloud）'], beside: { type: GATEWAY } } },
      },
      layer: {
        needs: [{ title: ['Service of an entry point', '入口的服务'], sides: [['service']] }],
        sections: [{ title: ['', ''], items: ['service', 'namespace'], isRow: true }, { title: ['', ''], items: ['labels', '@type'], isRow: true }],
        fields: { '@type': types('ServiceSelector', 'ServiceGatewaySelector'), service: SERVICE, namespace: NAMESPACE, labels: labels(['Instance labels', '实例标签'], ['Only instances with all of these.', '仅限具有全部这些标签的实例。']) },
      },
    },
    type: older('Type of the entry point', '入口类型', { idle: [OF_SERVICE, GATEWAY] }),
  }),
}

const LANES: Look = {
  title: ['Lanes', '泳道'], help: ['Tried in order; the first that matches a call marks it.', '按顺序尝试，首个匹配者为调用打标。'],
  layer: {
    ...plain({
      name: { title: ['Name', '名称'], placeholder: 'canary' },
      enable: { title: ['Enabled', '启用'] },
      traffic_match_rule: {
        title: ['Calls', '调用'], inline: 'bare',
        layer: plain({
          arguments: { ...CONDITIONS, help: ['Which calls belong to the lane.', '哪些调用属于此泳道。'] },
          matchMode: { title: ['Must hold', '须满足'], choices: { AND: ['All conditions', '全部条件'], OR: ['One condition', '任一条件'] }, when: ({ arguments: all }) => Array.isArray(all) && all.length > 1, idle: ['AND', 'OR'] },
        }),
      },
      default_label_value: { title: ['Value of the lane label', '泳道标签值'], help: ['Instances of the lane have this value of their lane label.', '泳道内实例的泳道标签为此值。'], placeholder: 'canary' },
      labelKey: { title: ['Lane label', '泳道标签'], help: ['Empty: lane.', '留空：lane。'], placeholder: 'lane' },
      match_mode: { title: ['If the lane has no instance', '泳道没有实例时'], choices: { STRICT: ['Fail', '失败'], PERMISSIVE: ['Use instances outside of the lane', '使用泳道外的实例'] } },
      traffic_gray: {
        title: ['Share of the calls', '流量比例'], inline: 'titled',
        layer: plain({
          mode: { title: ['Share', '比例'], choices: { PERCENTAGE: ['Fixed', '固定'], WARMUP: ['Rising', '逐步增加'] } },
          percentage: { title: ['Share', '比例'], inline: 'bare', when: ({ mode }) => mode !== 'WARMUP', layer: plain({ percent: { title: ['Share of the calls', '流量比例'], unit: 'percent', placeholder: '100' } }) },
          warmup: { title: ['Rise', '增加'], inline: 'bare', isRow: true, when: ({ mode }) => mode === 'WARMUP', layer: plain({ interval_second: { title: ['Full share after', '达到全部比例'], unit: 'seconds', placeholder: '60' }, curvature: { title: ['Curve, 1 to 5', '曲线 1–5'], placeholder: '1' } }) },
        }),
      },
      priority: ORDER, description: { title: ['Description', '描述'], as: 'lines' },
      group_name: { title: ['Group', '泳道组'], help: ['Set by the registry.', '由注册中心设置。'] },
      revision: older('Revision', '修订号'), ctime: older('Created', '创建时间'), mtime: older('Changed', '修改时间'), etime: older('Enabled since', '启用时间'),
    }, ['name', 'enable', 'traffic_match_rule', 'default_label_value', 'match_mode']),
    needs: [{ title: ['Name of a lane', '泳道名称'], sides: [['name']] }, { title: ['Value of the lane label', '泳道标签值'], sides: [['default_label_value']] }],
  },
}

export const lane: Layer = {
  needs: [{ title: ['Entry point', '流量入口'], sides: [['entries']] }, { title: ['Services in the lanes', '泳道内的服务'], sides: [['destinations']] }],
  sections: [
    { title: ['General', '基本'], items: ['name'] },
    { title: ['Entry', '入口'], items: ['entries'] },
    { title: ['Lanes', '泳道'], items: ['rules'] },
    { title: ['Services', '服务'], note: ['Calls among these stay in their lane.', '这些服务之间的调用不离开泳道。'], items: ['destinations', 'baseline_filter_strategy'] },
    { title: NOTES.title, items: ['description', 'metadata'], isFolded: true },
  ],
  fields: {
    ...SHARED, entries: ENTRIES, rules: LANES,
    destinations: { ...DESTINATIONS, title: ['Services in the lanes', '泳道内的服务'], layer: { ...(DESTINATIONS.layer as Layer), sections: [{ title: ['', ''], items: ['service', 'namespace'], isRow: true }] } },
    baseline_filter_strategy: { title: ['Instances outside of all lanes', '泳道外的实例'], choices: { NOT_MATCH_KEY: ['Have no lane label', '没有泳道标签'], NOT_MATCH_KEY_VALUES: ["Have no lane's value of it", '标签值不属于任何泳道'] } },
    editable: older('May be edited', '可编辑'), deleteable: older('May be deleted', '可删除'),
  },
}
