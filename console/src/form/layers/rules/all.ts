/** Layers of rules, by the kind in their addresses. */
import type { Layer } from '../layer'
import { blockAllow } from './block-allow'
import { circuitBreaker } from './circuit-breaker'
import { faultDetector } from './fault-detector'
import { lane } from './lane'
import { lossless } from './lossless'
import { rateLimit } from './rate-limit'
import { nearby, routing } from './routing'
import { routingV1 } from './routing-v1'
import { faultInjection, trafficMirroring } from './traffic'

export const RULE_LAYERS: Record<string, Layer> = {
  routing, 'nearby-routing': nearby, 'rate-limit': rateLimit, 'circuit-breaker': circuitBreaker, 'fault-detector': faultDetector, lane, lossless,
  'block-allow': blockAllow, 'traffic-mirroring': trafficMirroring, 'fault-injection': faultInjection, 'routing-v1': routingV1,
}
