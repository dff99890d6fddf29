/** Form of block and allow lists. */
import { type Layer, plain } from '../layer'
import { API, CONDITIONS, NAMED, NAMESPACE, NOTES, OF_NAMESPACE, OF_SERVICE, SERVICE, SHARED } from './shared'

export const blockAllow: Layer = {
  needs: [NAMED, OF_SERVICE, OF_NAMESPACE, { title: ['A list', '名单'], sides: [['block_allow_config']] }],
  sections: [
    { title: ['General', '基本'], items: ['name', 'service', 'namespace', 'enable', 'priority'] },
    { title: ['Lists', '名单'], items: ['block_allow_config'] },
    { title: NOTES.title, items: ['description', 'metadata'], isFolded: true },
  ],
  fields: {
    ...SHARED, service: { ...SERVICE, help: ['Service whose calls are allowed or blocked.', '被允许或禁止调用的服务。'] }, namespace: NAMESPACE,
    block_allow_config: {
      title: ['Lists', '名单'],
      layer: {
        ...plain({
          block_allow_policy: { title: ['Matching callers are', '匹配的调用方'], choices: { ALLOW_LIST: ['Allowed, all others blocked', '允许，其余禁止'], BLOCK_LIST: ['Blocked', '禁止'] } },
          arguments: { ...CONDITIONS, title: ['Callers', '调用方'], help: ['All conditions must hold.', '须全部满足。'] },
          api: API,
        }),
        needs: [{ title: ['Condition on the callers', '调用方条件'], sides: [['arguments']] }],
      },
    },
  },
}
