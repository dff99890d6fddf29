/** Layers of secret managers, by manager. */
import { plain, type Layer } from './layer'

export const vault: Layer = {
  sections: [{ title: ['Vault', 'Vault'], items: ['uri', 'prefix', 'token', 'namespace'] }],
  fields: {
    uri: { title: ['Address', '地址'], placeholder: 'http://127.0.0.1:8200' },
    prefix: { title: ['Path of the secrets', '密钥路径'], placeholder: 'kv/apisix' },
    token: { title: ['Token', '令牌'] },
    namespace: { title: ['Namespace', '命名空间'] },
  },
}

export const aws: Layer = {
  sections: [{ title: ['AWS Secrets Manager', 'AWS Secrets Manager'], items: ['access_key_id', 'secret_access_key', 'session_token', 'region', 'endpoint_url'] }],
  fields: {
    access_key_id: { title: ['Access key ID', '访问密钥 ID'] },
    secret_access_key: { title: ['Secret access key', '私有访问密钥'] },
    session_token: { title: ['Session token', '会话令牌'], help: ['Only for temporary keys.', '仅用于临时密钥。'] },
    region: { title: ['Region', '区域'], placeholder: 'us-east-1' },
    endpoint_url: { title: ['Other address', '其他地址'], help: ['If the service is not at its usual place.', '服务不在默认地址时填写。'] },
  },
}

export const gcp: Layer = {
  sections: [{ title: ['Google Secret Manager', 'Google Secret Manager'], items: [
    { choice: ['Service account', '服务账号'], sides: [{ title: ['Enter it here', '在此填写'], fields: ['auth_config'] }, { title: ['File on the gateway', '网关上的文件'], fields: ['auth_file'] }] },
    'ssl_verify',
  ] }],
  fields: {
    auth_config: {
      title: ['Service account', '服务账号'],
      inline: 'bare',
      layer: plain({
        client_email: { title: ['E-mail', '邮箱'] }, private_key: { title: ['Private key', '私钥'], as: 'pem' }, project_id: { title: ['Project', '项目'] },
        token_uri: { title: ['Token address', '令牌地址'] }, entries_uri: { title: ['Service address', '服务地址'] }, scope: { title: ['Scopes', '范围'] },
      }, ['client_email', 'private_key', 'project_id']),
    },
    auth_file: { title: ['File', '文件'], placeholder: '/etc/tollhouse/gcp.json' },
    ssl_verify: { title: ['Verify the certificate', '验证证书'] },
  },
}
