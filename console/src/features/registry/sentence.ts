/** What a governance rule says, in sentences: whose calls, where to, how many. Only what people need to tell rules apart; the
 * form has the rest. Rules are read as they stand, whatever they lack. */
import type { Words } from '../../words/en'
import type { RuleKind } from './kinds'

type Json = Record<string, unknown>

const record = (value: unknown): Json => (typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {})
const list = (value: unknown): Json[] => (Array.isArray(value) ? value.map(record) : [])
const text = (value: unknown) => (typeof value === 'string' ? value : typeof value === 'number' ? String(value) : '')

/** Operators of a comparison, as people read them. */
const SIGNS: Record<string, string> = { EXACT: '=', REGEX: '~', NOT_EQUALS: '≠', IN: '∈', NOT_IN: '∉', RANGE: 'in' }

/** What is not written yet. */
const OPEN = '…'

/** Subjects of conditions that need no name. */
const NAMELESS = new Set(['METHOD', 'PATH', 'CALLER_IP'])

/** A number as it is written; one that is not yet is left open, and what is no number counts as zero. */
const number = (value: unknown): number | string => (value === undefined || value === null ? OPEN : Number.isFinite(Number(value)) ? Number(value) : 0)

const isSome = (value: unknown) => Number(value ?? 0) > 0

/** `version = 2.0.0` */
function comparison(key: string, value: unknown): string {
  const { type, value: wanted } = record(value)
  return `${key} ${SIGNS[text(type)] ?? '='} ${text(wanted) || OPEN}`
}

const comparisons = (value: unknown) => Object.entries(record(value)).map(([key, wanted]) => comparison(key, wanted))

/** Sentences about a rule; none where it says nothing that has one. */
export function sentencesOf(kind: RuleKind, rule: unknown, words: Words): string[] {
  const say = words.sentences
  const value = record(rule)
  const service = (one: Json) => {
    const name = text(one.service)
    return name === '*' || (one.service ?? undefined) === undefined ? say.anyService : name || OPEN
  }
  const conditions = (all: unknown) => list(all).map((one) => {
    const subject = say.subjects[text(one.type) as keyof typeof say.subjects] ?? ''
    // Names that the protocol gives begin with a dollar sign.
    return comparison([subject, text(one.key).replace(/^\$.*/, '') || (NAMELESS.has(text(one.type)) ? '' : OPEN)].filter(Boolean).join(' '), one.value)
  })
  const suffixed = (name: string, more: string[]) => (more.length === 0 ? name : `${name} (${more.join(', ')})`)
  const caller = (one: Json) => suffixed(service(one), [...conditions(one.arguments), ...comparisons(one.metadata)])
  const callers = (all: unknown) => say.or(list(all).map(caller)) || say.anyService
  const target = (one: Json) => suffixed(service(one), [...comparisons(one.labels), ...comparisons(one.metadata), ...(one.weight === undefined || one.weight === null ? [] : [say.weight(number(one.weight))]), ...(one.isolate === true ? [words.isolated] : [])])
  const targets = (all: unknown) => say.and(list(all).map(target)) || say.nowhere
  const own = suffixed(service(value), [])
  switch (kind) {
    case 'routing': {
      const config = record(value.routing_config)
      const rules = list(config.rules)
      return (rules.length > 0 ? rules : list([config])).filter((one) => list(one.destinations).length > 0).map((one) => say.route(callers(one.sources), targets(one.destinations)))
    }
    case 'nearby-routing': {
      const config = record(value.routing_config)
      const level = (name: unknown) => say.levels[text(name) as keyof typeof say.levels] ?? text(name)
      return [say.nearby(service(config), level(config.match_level), level(config.max_match_level))]
    }
    case 'rate-limit': {
      const method = text(record(value.method).value)
      const what = suffixed(own, [...(method ? [method] : []), ...conditions(value.arguments), ...comparisons(value.labels)])
      const scope = value.type === 'LOCAL' ? say.each : say.together
      const amounts = list(value.amounts).map((one) => say.limit(what, number(one.maxAmount), text(one.validDuration) || OPEN, scope))
      const atOnce = number(record(value.concurrency_amount).max_amount)
      return value.resource === 'CONCURRENCY' ? [say.concurrency(what, atOnce, scope)] : amounts
    }
    case 'circuit-breaker': {
      const matcher = record(value.ruleMatcher ?? value.rule_matcher)
      const destination = record(matcher.destination)
      const triggers = list(value.triggerCondition ?? value.trigger_condition).concat(list(value.block_configs).flatMap((one) => list(one.trigger_conditions)))
      const when = triggers.map((one) => (text(one.triggerType ?? one.trigger_type) === 'ERROR_RATE' ? say.errorRate(number(one.errorPercent ?? one.error_percent), number(one.interval)) : say.inARow(number(one.errorCount ?? one.error_count))))
      const recover = record(value.recoverCondition)
      return [say.breaker(service(record(matcher.source)), service(destination), say.or(when) || say.whenItFails, number(recover.sleepWindow ?? recover.sleep_window))]
    }
    case 'fault-detector':
      return [say.probe(service(record(value.targetService ?? value.target_service)), text(value.protocol) || 'HTTP', number(value.interval))]
    case 'lane':
      return list(value.rules).map((one) => say.lane(suffixed(text(one.name), conditions(record(one.traffic_match_rule).arguments)), say.and(list(value.destinations).map(service)) || say.anyService))
    case 'lossless': {
      const online = record(value.lossless_online)
      const delay = record(online.delay_register)
      const warmup = record(online.warmup)
      return [
        ...(delay.enable === true ? [say.delayed(own, number(delay.interval_second))] : []),
        ...(warmup.enable === true ? [say.warms(own, number(warmup.interval_second))] : []),
        ...(record(value.lossless_offline).enable === true ? [say.drains(own)] : []),
      ]
    }
    case 'block-allow':
      return list(value.block_allow_config).map((one) => (text(one.block_allow_policy) === 'BLOCK_LIST' ? say.blocks : say.allows)(own, say.or(conditions(one.arguments)) || say.anyService))
    case 'traffic-mirroring':
      return [say.mirror(callers(value.sources), own, number(value.mirroringPercent), targets(value.destinations))]
    case 'fault-injection': {
      const delay = record(value.delayFault)
      const abort = record(value.abortFault)
      return [
        ...(isSome(delay.delayPercent) ? [say.delays(callers(value.sources), own, number(delay.delayPercent), number(delay.delay))] : []),
        ...(isSome(abort.abortPercent) ? [say.aborts(callers(value.sources), own, number(abort.abortPercent), number(abort.abortCode))] : []),
      ]
    }
    case 'routing-v1':
      return [...list(value.inbounds), ...list(value.outbounds)].map((one) => say.route(callers(one.sources), targets(one.destinations)))
  }
}
