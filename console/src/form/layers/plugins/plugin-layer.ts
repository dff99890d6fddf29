/** Shape of the layer of a plugin. */
import type { Layer, Look } from '../layer'

export interface PluginLayer {
  /** What a plugin begins with that is added: values that suit nearly everybody. What only its author knows stays empty. */
  start?: object
  layer?: Layer
  /** The same for what a consumer's plugin says of the consumer. */
  identity?: Layer
}

/** Status of refused requests. */
export const REJECTED: Look = { title: ['Status of refused requests', '拒绝时的状态码'], placeholder: '429' }
export const MESSAGE: Look = { title: ['Message for refused requests', '拒绝时的消息'] }
export const SECRET: Look = { title: ['Secret', '密钥'] }
export const HIDE: Look = { title: ['Hide the credential from nodes', '不向节点传递凭证'] }
