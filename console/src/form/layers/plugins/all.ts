/** Layers of plugins by name. A plugin without one is drawn from its schema: required fields first. */
import { authentication } from './authentication'
import { observability } from './observability'
import type { PluginLayer } from './plugin-layer'
import { security } from './security'
import { traffic } from './traffic'
import { transformation } from './transformation'

export const PLUGIN_LAYERS: Record<string, PluginLayer> = { ...authentication, ...security, ...traffic, ...transformation, ...observability }
