/** Layers of objects that hold plugins for others: consumer groups, plugin configs, global rules. */
import { DESC, LABELS, NAME, NOTES, type Layer, PLUGINS } from './layer'

const shared: Layer = {
  sections: [{ title: ['General', '基本'], items: ['name'] }, { title: ['Plugins', '插件'], items: ['plugins'] }, NOTES],
  fields: { name: NAME, plugins: PLUGINS, desc: DESC, labels: LABELS },
}

export const consumerGroup: Layer = shared
export const pluginConfig: Layer = shared

export const globalRule: Layer = {
  sections: [{ title: ['Plugins', '插件'], note: ['They run for every request of the gateway.', '对网关的每个请求生效。'], items: ['plugins'] }],
  fields: { plugins: PLUGINS },
}

/** Metadata have the fields of their plugin; those that loggers share have titles. */
export const pluginMetadata: Layer = {
  sections: [{ title: ['Settings', '设置'], note: ['They apply to every use of the plugin.', '对该插件的所有使用生效。'], items: ['log_format', 'log_format_extra', 'max_pending_entries'] }],
  fields: {
    log_format: { title: ['Log format', '日志格式'], help: ['Names of fields with what each holds, such as host = $host.', '字段名及其内容，如 host = $host。'], inline: 'titled' },
    log_format_extra: { title: ['Additional log fields', '附加日志字段'] },
    max_pending_entries: { title: ['Buffer size (entries)', '待发送条目上限'] },
  },
}
