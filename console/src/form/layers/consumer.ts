/** Layer of consumers. */
import { DESC, LABELS, NOTES, type Layer } from './layer'

export const consumer: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['username', 'group_id'] },
    { title: ['Credentials and plugins', '凭证与插件'], note: ['How the consumer is identified, and which plugins apply to it alone.', '如何识别该消费者，以及仅对其生效的插件。'], items: ['plugins'] },
    NOTES,
  ],
  fields: {
    username: { title: ['Name', '名称'], help: ['Letters, digits, _ and -. It is the id, and cannot be changed later.', '字母、数字、_ 和 -。它就是 ID，之后不能更改。'], placeholder: 'partner' },
    group_id: { title: ['Group', '消费者组'], help: ['Shares the plugins of a consumer group.', '共用消费者组的插件。'], of: 'consumer_groups' },
    plugins: { title: ['Credentials and plugins', '凭证与插件'] },
    desc: DESC,
    labels: LABELS,
  },
}
