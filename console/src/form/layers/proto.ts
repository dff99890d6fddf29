/** Layer of protos. */
import { DESC, LABELS, NAME, NOTES, type Layer } from './layer'

export const proto: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['name'] },
    { title: ['Definition', '定义'], note: ['Paste a .proto file, or drop it on the field.', '粘贴 .proto 文件，或将其拖到输入框上。'], items: ['content'] },
    NOTES,
  ],
  fields: {
    name: NAME,
    content: { title: ['Proto file', 'Proto 文件'], help: ['The text of a .proto file, or a descriptor set in base64.', '.proto 文件的文本，或 base64 编码的描述符集。'], as: 'proto' },
    desc: DESC,
    labels: LABELS,
  },
}
