/** Layer of certificates. */
import { DESC, LABELS, NAME, NOTES, type Layer } from './layer'
import { STATUS } from './route'

const isServer = ({ type }: Record<string, unknown>) => type !== 'client'

export const ssl: Layer = {
  needs: [
    { title: ['Certificate chain', '证书链'], sides: [['cert']] },
    { title: ['Private key', '私钥'], sides: [['key']], isOfNew: true },
    { title: ['Host names', '主机名'], sides: [['snis'], ['sni']], when: isServer },
  ],
  sections: [
    {
      title: ['Certificate', '证书'], note: ['Paste the PEM text, or drop the files on the fields.', '粘贴 PEM 文本，或将文件拖到输入框上。'],
      items: ['cert', 'key', { choice: ['Host names', '主机名'], sides: [{ title: ['Several names', '多个名称'], fields: ['snis'] }, { title: ['One name', '一个名称'], fields: ['sni'] }], when: isServer }],
    },
    { title: ['General', '基本'], items: ['name', 'type', 'status'] },
    { title: ['Client certificates (mTLS)', '客户端证书 (mTLS)'], note: ['Who may connect: only clients with a certificate of this authority.', '仅允许持有此 CA 签发证书的客户端连接。'], items: ['client'], isFolded: true },
    { title: ['More certificates', '更多证书'], note: ['For example an ECDSA one beside RSA.', '例如在 RSA 之外提供 ECDSA。'], items: ['certs', 'keys'], isFolded: true },
    { title: ['TLS versions and OCSP', 'TLS 版本与 OCSP'], items: ['ssl_protocols', 'ocsp', 'ocsps'], isFolded: true },
    NOTES,
  ],
  fields: {
    cert: { title: ['Certificate chain', '证书链'], help: ['The certificate first, then the intermediate ones.', '先是证书本身，然后是中间证书。'], as: 'pem' },
    key: { title: ['Private key', '私钥'], help: ['Stored encrypted and never shown again.', '加密保存，之后不再显示。'], as: 'pem', isWriteOnly: true },
    sni: { title: ['Host name', '主机名'], placeholder: 'shop.example.com' },
    snis: { title: ['Host names', '主机名'], help: ['Names for which the certificate is shown; *.example.com covers one level.', '使用此证书的主机名；*.example.com 覆盖一级。'], placeholder: 'shop.example.com' },
    name: NAME,
    type: { title: ['Used for', '用途'], choices: { server: ['Connections from clients', '来自客户端的连接'], client: ['Connections to nodes', '到节点的连接'] } },
    status: STATUS,
    client: {
      title: ['Client certificates', '客户端证书'],
      inline: 'bare',
      layer: {
        sections: [{ title: ['', ''], items: ['ca', 'depth', 'skip_mtls_uri_regex'] }],
        fields: {
          ca: { title: ['Authority', 'CA 证书'], as: 'pem' },
          depth: { title: ['Intermediate certificates', '中间证书层数'] },
          skip_mtls_uri_regex: { title: ['Paths without it', '免验证路径'], help: ['Patterns of paths that need no client certificate.', '无需客户端证书的路径模式。'], placeholder: '/health.*' },
        },
      },
    },
    certs: { title: ['Further certificate chains', '更多证书链'], as: 'pem' },
    keys: { title: ['Their private keys', '对应的私钥'], help: ['In the same order.', '顺序相同。'], as: 'pem', isWriteOnly: true },
    ssl_protocols: { title: ['TLS versions', 'TLS 版本'], help: ['No choice means those of the bootstrap file.', '不选：沿用配置文件。'] },
    ocsp: { title: ['OCSP response', 'OCSP 应答'], help: ['DER in base64; usually fetched by the gateway itself.', 'base64 编码的 DER，通常由网关自行获取。'], as: 'lines' },
    ocsps: { title: ['Further OCSP responses', '更多 OCSP 应答'] },
    desc: DESC,
    labels: LABELS,
  },
}
