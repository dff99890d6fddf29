/** Layers by kind of object. A kind without one is drawn from its schema alone. */
import type { Kind } from '../../api/types'
import { consumer } from './consumer'
import { credential } from './credential'
import type { Layer } from './layer'
import { consumerGroup, globalRule, pluginConfig, pluginMetadata } from './plugin-sets'
import { proto } from './proto'
import { route } from './route'
import { aws, gcp, vault } from './secret'
import { service } from './service'
import { ssl } from './ssl'
import { streamRoute } from './stream-route'
import { upstream } from './upstream'

/** Layers by the name of the schema that they lie over. */
export const LAYERS: Record<string, Layer> = {
  route, service, upstream, consumer, credential, consumer_group: consumerGroup, plugin_config: pluginConfig, global_rule: globalRule, plugin_metadata: pluginMetadata,
  ssl, stream_route: streamRoute, proto, secret_vault: vault, secret_aws: aws, secret_gcp: gcp,
}

const SCHEMAS: Record<Exclude<Kind, 'secrets'>, string> = {
  routes: 'route', services: 'service', upstreams: 'upstream', consumers: 'consumer', consumer_groups: 'consumer_group', plugin_configs: 'plugin_config', global_rules: 'global_rule',
  plugin_metadata: 'plugin_metadata', ssls: 'ssl', stream_routes: 'stream_route', protos: 'proto',
}

/** The layer of a kind; that of a secret is its manager's, with which its id begins. */
export const layerOf = (kind: Kind, id: string): Layer | undefined =>
  LAYERS[kind === 'secrets' ? `secret_${id.split('/')[0]}` : SCHEMAS[kind]]
