/** What rules say in sentences, and that their forms change nothing that nobody edits. */
import { describe, expect, it } from 'vitest'
import { pretty } from '../../lib/json-text'
import { type Path, setAt, textAt } from '../../lib/pointer'
import { en } from '../../words/en'
import { zh } from '../../words/zh'
import { RULE_EXAMPLES } from '../../../e2e/rules'
import { RULE_KINDS, RULE_STARTS } from './kinds'
import { sentencesOf } from './sentence'

describe('what a rule says', () => {
  it('is told of a new rule of every kind, in every language', () => {
    for (const kind of RULE_KINDS) {
      for (const words of [en, zh]) {
        const said = kind === 'fault-injection' ? sentencesOf(kind, { ...RULE_EXAMPLES[kind], abortFault: { abortPercent: 5, abortCode: 503 } }, words) : sentencesOf(kind, RULE_EXAMPLES[kind], words)
        expect(said.length, kind).toBeGreaterThan(0)
        expect(said.join(' '), kind).not.toMatch(/undefined|NaN|\[object/)
      }
    }
  })

  it('leaves open what a new rule does not say yet, and makes no name up', () => {
    for (const kind of RULE_KINDS) {
      for (const words of [en, zh]) expect(sentencesOf(kind, RULE_STARTS[kind], words).join(' '), kind).not.toMatch(/undefined|NaN|\[object|orders|canary/)
      expect(JSON.stringify(RULE_STARTS[kind]), kind).not.toMatch(/orders|canary|v2|2\.0|x-lane|10\.0\.0/)
    }
    expect(sentencesOf('routing', RULE_STARTS.routing, en)).toEqual(['Calls from any service go to … (weight 100).'])
  })

  it('names callers, conditions and destinations', () => {
    const rule = {
      routing_config: {
        rules: [{
          sources: [{ service: 'web', arguments: [{ type: 'HEADER', key: 'x-user', value: { type: 'EXACT', value: 'jack' } }] }, { service: '*' }],
          destinations: [{ service: 'orders', labels: { version: { type: 'REGEX', value: '2.*' } }, weight: 20 }, { service: 'orders', isolate: true }],
        }],
      },
    }
    expect(sentencesOf('routing', rule, en)).toEqual(['Calls from web (header x-user = jack) or any service go to orders (version ~ 2.*, weight 20) and orders (isolated).'])
    expect(sentencesOf('rate-limit', { service: 'orders', type: 'LOCAL', method: { value: '/pay' }, amounts: [{ maxAmount: 5, validDuration: '1m' }] }, en)).toEqual(['At most 5 requests in 1m to orders (/pay), counted in each instance.'])
  })

  it('is nothing of what is no rule', () => {
    for (const kind of RULE_KINDS) for (const value of [null, 7, [], {}, { routing_config: 1, amounts: 'x', rules: [null] }]) expect(() => sentencesOf(kind, value, en), kind).not.toThrow()
  })
})

describe('a rule in its form', () => {
  /** All places in a value. */
  const places = (value: unknown, path: Path = []): Path[] => [path, ...(typeof value === 'object' && value !== null ? Object.entries(value).flatMap(([name, one]) => places(one, [...path, Array.isArray(value) ? Number(name) : name])) : [])]

  it('is what it was when what is there is written again, and differs in one place after one edit', () => {
    for (const kind of RULE_KINDS) {
      const text = pretty(JSON.stringify({ ...RULE_EXAMPLES[kind], unknown: { kept: 12345678901 }, '@x': {} }))
      for (const path of places(JSON.parse(text))) {
        const there = textAt(text, path) as string
        expect(setAt(text, path, there), kind).toBe(text)
        if (path.length > 0) expect(setAt(setAt(text, path, '"__changed__"'), path, there), kind).toBe(text)
      }
    }
  })
})
