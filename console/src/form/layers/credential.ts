/** Layer of credentials. */
import { DESC, LABELS, NAME, NOTES, type Layer } from './layer'

export const credential: Layer = {
  sections: [
    { title: ['General', '基本'], items: ['name'] },
    { title: ['Credential', '凭证'], note: ['One authentication plugin with what the client presents.', '一个认证插件，以及客户端需出示的内容。'], items: ['plugins'] },
    NOTES,
  ],
  fields: { name: NAME, plugins: { title: ['Credential', '凭证'] }, desc: DESC, labels: LABELS },
}
