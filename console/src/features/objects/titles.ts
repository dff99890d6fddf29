/** Titles of editors: what is made, and what is edited. */
import type { Kind } from '../../api/types'
import type { Text } from '../../form/layers/layer'

const ONE: Record<Kind, Text> = {
  routes: ['route', '路由'], services: ['service', '服务'], upstreams: ['upstream', '上游'], consumers: ['consumer', '消费者'], consumer_groups: ['consumer group', '消费者组'], plugin_configs: ['plugin config', '插件配置'],
  global_rules: ['global rule', '全局规则'], plugin_metadata: ['plugin metadata', '插件元数据'], ssls: ['certificate', '证书'], stream_routes: ['stream route', '流路由'], protos: ['proto', 'Proto'], secrets: ['secret manager', '密钥管理器'],
}

const titled = (en: string, zh: string) => Object.fromEntries(Object.entries(ONE).map(([kind, [one, other]]) => [kind, [`${en} ${one}`, `${zh}${other}`]])) as unknown as Record<Kind, Text>

export const NEW_TITLES = titled('New', '新建')
export const EDIT_TITLES = titled('Edit', '编辑')
