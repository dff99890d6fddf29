/** Texts of the form's own parts, in both languages. They are here and not with the other words, so that only editors fetch them. */
import { stretched } from '../words/pseudo'
import { useLanguage } from '../words/words'
import type { Text } from './layers/layer'

export const TEXTS = {
  allSettings: ['All settings', '全部设置'],
  advanced: ['Advanced', '高级'],
  advancedNote: ['Everything else that the gateway knows.', '网关支持的其余全部字段。'],
  isSet: ['set', '已设置'],
  required: ['Required.', '必填。'],
  stillNeeded: ['Still needed:', '还需填写：'],
  byDefault: ['default', '默认'],
  notSet: ['Not set', '未设置'],
  other: ['Other…', '其他…'],
  reset: ['Use the default', '恢复默认'],
  search: ['Search…', '搜索…'],
  createNew: ['Create new', '新建'],
  newTab: ['opens in a new tab', '在新标签页中打开'],
  nothingFound: ['Nothing found', '未找到'],
  show: ['Open', '打开'],
  dropFile: ['Drop a file here, paste, or', '将文件拖到此处、粘贴，或'],
  chooseFile: ['choose a file', '选择文件'],
  notText: ['This file is not text. Convert it to PEM first.', '该文件不是文本，请先转换为 PEM。'],
  tooLong: ['This file is too large.', '文件过大。'],
  addPlugin: ['Add plugin', '添加插件'],
  noPlugins: ['No plugins yet.', '还没有插件。'],
  pluginGallery: ['Add a plugin', '添加插件'],
  searchPlugins: ['Search by name or purpose', '按名称或用途搜索'],
  manual: ['Manual', '手册'],
  pluginOn: ['Plugin is on', '插件已启用'],
  common: ['Conditions and order of this plugin', '此插件的条件与顺序'],
  address: ['Address', '地址'],
  port: ['Port', '端口'],
  weight: ['Weight', '权重'],
  health: ['Health', '健康'],
  addNode: ['Add node', '添加节点'],
  addRow: ['Add', '添加'],
  pasteNodes: ['Lines of host:port can be pasted.', '可粘贴多行 host:port。'],
  everyRequest: ['Every request. Add a condition to narrow it.', '全部请求。添加条件以缩小范围。'],
  allHold: ['All of these hold', '满足全部条件'],
  oneHolds: ['One of these holds', '满足任一条件'],
  when: ['When', '当'],
  addLabel: ['Add label', '添加标签'],
  nameTaken: ['This name is in use.', '该名称已存在。'],
  valueKind: ['Kind of value', '值的类型'],
  compareOther: ['Compare with a variable', '与变量比较'],
  allServices: ['All services', '全部服务'],
  allNamespaces: ['All namespaces', '全部命名空间'],
  ruleKind: ['Kind of rule', '规则类型'],
  addCondition: ['Add condition', '添加条件'],
  and: ['and', '且'],
  or: ['or', '或'],
  values: ['Value; several with commas', '值，多个以逗号分隔'],
  not: ['not:', '非：'],
  use: ['Use', '使用'],
  seconds: ['s', '秒'],
  milliseconds: ['ms', '毫秒'],
  bytes: ['bytes', '字节'],
  percent: ['%', '%'],
  idHelp: ['Empty: the gateway picks one.', '留空：由网关生成。'],
} as const satisfies Record<string, Text>

/** Picks the text of the language that is read. */
export function useSay(): (text: Text) => string {
  const { language } = useLanguage()
  return ([en, zh]) => (language === 'zh' ? zh : language === 'en-XA' && en !== '' ? stretched(en) : en)
}
