/** Governance rules in their forms: new ones begin empty and say what they lack, stored ones keep all that they hold. */
import type { Page } from '@playwright/test'
import { SUBJECTS } from '../src/form/fields/comparisons'
import { hidden, leads, named, strangers } from '../src/form/inspect'
import { RULE_LAYERS } from '../src/form/layers/rules/all'
import { SHARED } from '../src/form/layers/rules/shared'
import type { Layer } from '../src/form/layers/layer'
import { isRecord, planOf, type Schema } from '../src/form/plan'
import { RULE_KINDS, type RuleKind } from '../src/features/registry/kinds'
import { segmentOf } from '../src/lib/segment'
import { faults } from './axe'
import { ADMIN, expect, type Own, signIn, test, withSettings } from './gateway'
import { RULE_EXAMPLES } from './rules'

const schemaOf = async (gateway: Pick<Own, 'call'>, kind: RuleKind) => (await (await gateway.call('GET', `/console/v1/schema/rules/${kind}`)).json()) as Schema

const newRule = (kind: RuleKind) => `/ui/registry/rules/${kind}/+`

test('rules of every kind have a form and a sentence, and are what they were when nothing is edited', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    const ids: [string, string][] = []
    for (const kind of RULE_KINDS) {
      const made = await gateway.call('POST', `/registry/v1/rules/${kind}`, RULE_EXAMPLES[kind])
      expect(made.status, `${kind}: ${await made.clone().text()}`).toBe(201)
      ids.push([kind, (await made.json()).id])
    }
    await signIn(page, gateway, ADMIN, '/ui/registry/rules?sort=kind')
    await expect(page.locator('tbody tr')).toHaveCount(RULE_KINDS.length)
    for (const [kind, id] of ids) {
      const path = `/registry/v1/rules/${kind}/${encodeURIComponent(id)}`
      const before = await (await gateway.call('GET', path)).text()
      await page.goto(`${gateway.admin}/ui/registry/rules/${kind}/${segmentOf(id)}`)
      await expect(page.getByRole('region', { name: 'What it says' }), kind).not.toBeEmpty()
      await expect(page.locator('.views .fields').first(), kind).toBeVisible()
      await expect(page.getByRole('button', { name: 'Review' }), kind).toBeDisabled()
      expect(await (await gateway.call('GET', path)).text(), kind).toBe(before)
      // No field is drawn as JSON, and none by a name of the protocol alone.
      await expect(page.locator('[data-raw]'), kind).toHaveCount(0)
    }
  })
})

test('forms of rules name only fields that the gateway knows, and hide none of them', async ({ gateway }) => {
  for (const kind of RULE_KINDS) {
    const schema = await schemaOf(gateway, kind)
    const layer = RULE_LAYERS[kind] as Layer
    // Not every kind has all that most of them share.
    expect([...named(layer)].filter((name) => !(name in SHARED) && !leads(schema, name.split('.'))), kind).toEqual([])
    expect(strangers(schema, layer, ''), kind).toEqual([])
    expect(hidden(schema, layer, kind), kind).toEqual([])
    for (const subject of JSON.stringify(schema).matchAll(/"enum":(\["CUSTOM"[^\]]*\])/g)) for (const name of JSON.parse(subject[1] as string) as string[]) expect(SUBJECTS, kind).toHaveProperty(name)
  }
})

/** Fields of which a new rule of a kind says that they are missing, as they are called in its form. */
const LACKING: Record<RuleKind, string[]> = {
  routing: ['Name', 'Service of a destination'], 'nearby-routing': ['Name', 'Service'], 'rate-limit': ['Name', 'Service', 'Requests allowed', 'Period'],
  'circuit-breaker': ['Name', 'Called service', 'Value in a condition', 'Share of errors', 'Within', 'Try again after'],
  'fault-detector': ['Interval', 'Name', 'Service', 'Path'], lane: ['Name', 'Service of an entry point', 'Service of a destination', 'Name of a lane', 'Name in a condition', 'Value in a condition', 'Value of the lane label'], lossless: ['Service'],
  'block-allow': ['Name', 'Service', 'Name in a condition', 'Value in a condition'], 'traffic-mirroring': ['Service', 'Copied share', 'Service of a destination'], 'fault-injection': ['Service', 'Delay or error'],
  'routing-v1': ['Service', 'Service of a destination'],
}

test('new rules of every kind begin empty and say in words what they lack, before anything is written', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    await signIn(page, gateway, ADMIN, '/ui/registry/rules')
    for (const kind of RULE_KINDS) {
      await page.goto(gateway.admin + newRule(kind))
      await expect(page.locator('.views .fields').first(), kind).toBeVisible()
      // Nothing is red before something was tried.
      await expect(page.locator('[aria-invalid=true]'), kind).toHaveCount(0)
      await expect(page.getByText('Still needed:'), kind).toBeVisible()
      await page.getByRole('button', { name: 'Review' }).click()
      const lacking = await page.getByRole('alert').getByRole('listitem').allInnerTexts()
      expect(lacking.sort(), kind).toEqual(LACKING[kind].map((title) => `${title}: Required.`).sort())
      expect(await page.locator('[aria-invalid=true]').count(), kind).toBeGreaterThan(0)
    }
    expect((await (await gateway.call('GET', '/registry/v1/rules')).json()).total).toBe(0)
  })
})

/** Chooses in the form's field what is offered for a name. */
async function pick(page: Page, label: string, name: string, at = 0) {
  await page.getByRole('combobox', { name: label, exact: true }).nth(at).click()
  await page.getByRole('option', { name }).click()
}

test('a routing rule is written in its form, from calls with a header to instances with a label', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const version of ['1', '2']) await gateway.call('POST', '/registry/v1/instances', { namespace: 'default', service: 'orders', host: `10.0.0.${version}`, port: 80, version })
    await signIn(page, gateway, ADMIN, '/ui/registry/rules')
    await page.goto(gateway.admin + newRule('routing'))
    await page.getByRole('textbox', { name: 'Name', exact: true }).first().fill('testers')
    await page.getByRole('button', { name: '+ Add condition' }).click()
    await page.getByRole('textbox', { name: 'Condition 1: Name' }).fill('x-tester')
    await page.getByRole('textbox', { name: 'Condition 1: value' }).fill('yes')
    await pick(page, 'Service', 'orders', 1)
    await page.getByRole('button', { name: '+ Add label' }).click()
    await page.getByRole('textbox', { name: 'Instance labels 1: Name' }).fill('version')
    await page.keyboard.press('Tab')
    await expect(page.getByRole('combobox', { name: 'Instance labels 1: operator' })).toBeFocused()
    await page.keyboard.press('Tab')
    await page.keyboard.type('2')
    await page.getByRole('textbox', { name: 'Weight' }).fill('10')
    await expect(page.getByRole('region', { name: 'What it says' })).toHaveText('Calls from any service (header x-tester = yes) go to orders (version = 2, weight 10).')
    expect(await faults(page)).toEqual([])
    await page.getByRole('button', { name: 'Review' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('link', { name: 'testers' })).toBeVisible()
    const { list } = await (await gateway.call('GET', '/registry/v1/rules/routing')).json()
    expect(list[0].rule.routing_config.rules[0]).toMatchObject({
      sources: [{ service: '*', namespace: '*', arguments: [{ type: 'HEADER', key: 'x-tester', value: { type: 'EXACT', value: 'yes' } }] }],
      destinations: [{ service: 'orders', namespace: 'default', labels: { version: { type: 'EXACT', value: '2' } }, weight: 10 }],
    })
  })
})

test('a limit is made in its form, says what it does, is switched off and edited in one place', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    await gateway.call('POST', '/registry/v1/instances', { namespace: 'default', service: 'orders', host: '10.0.0.1', port: 80 })
    await signIn(page, gateway, ADMIN, newRule('rate-limit'))
    const says = page.getByRole('region', { name: 'What it says' })
    await expect(says).toContainText('At most … requests in … to …')
    await page.getByRole('textbox', { name: 'Name', exact: true }).fill('limit')
    await pick(page, 'Service', 'orders')
    await page.getByRole('textbox', { name: 'Requests allowed' }).fill('250')
    await page.getByRole('textbox', { name: 'Period' }).fill('60')
    await expect(page.getByText('= 1 min')).toBeVisible()
    await expect(says).toContainText('At most 250 requests in 60s to orders')
    // A change of the view is no leave-taking.
    await page.getByText('JSON', { exact: true }).click()
    await expect(page.getByRole('textbox', { name: 'JSON' })).toHaveValue(/"maxAmount": 250/)
    await page.getByRole('button', { name: 'Review' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('link', { name: 'limit' }).click()
    await page.getByRole('switch', { name: 'The rule is on' }).click()
    await expect.poll(async () => (await (await gateway.call('GET', '/registry/v1/rules/rate-limit')).json()).list[0].enabled).toBe(false)
    await expect(page.getByRole('switch', { name: 'The rule is on' })).not.toBeChecked()
    expect(await faults(page)).toEqual([])
  })
})

/** Texts that the protocol reads as something else than a text. */
const FORMED: Record<string, unknown> = {
  validDuration: '60s', interval: '5s', window: '5s', reportInterval: '5s', maxRt: '5s', judgeDuration: '5s', health_check_interval_second: '30', namespace: 'default', service: 'orders', transfer: 'orders',
}

/** Fields that the registry writes itself, and those of which the schema says nothing. */
const LEFT = new Set(['id', 'revision', 'ctime', 'mtime', 'etime', 'editable', 'deleteable'])

/** A value with everything that a schema has, as it may be sent; of shapes the one that is asked for. */
function whole(schema: Schema, name: string, shape: number): unknown {
  const plan = planOf(schema, undefined, name)
  switch (plan.kind) {
    case 'choice': return plan.choices.at(-1)
    case 'number': return name === 'priority' ? 3 : 7
    case 'amount': return '7'
    case 'switch': return true
    case 'text': return typeof FORMED[name] === 'string' && schema.enum === undefined ? FORMED[name] : `a ${name}`
    case 'either': return whole(plan.variants[Math.min(shape, plan.variants.length - 1)] as Schema, name, shape)
    case 'list': return [whole(plan.item, name, shape)]
    case 'object': {
      if (plan.members.length === 0) return plan.rest?.type === 'string' ? { some: 'text' } : { some: whole(plan.rest as Schema, 'value', shape) }
      return Object.fromEntries(plan.members.filter((member) => !LEFT.has(member.name)).map((member) => [member.name, whole(member.schema, member.name, shape)]))
    }
    default: return undefined
  }
}

/** Addresses of Polaris' HTTP API, by the kind of rule. */
const POLARIS: Record<RuleKind, string> = {
  routing: '/naming/v2/routings', 'nearby-routing': '/naming/v2/routings', 'rate-limit': '/naming/v1/ratelimits', 'circuit-breaker': '/naming/v1/circuitbreaker/rules', 'fault-detector': '/naming/v1/faultdetectors', lane: '/naming/v1/lane/groups',
  lossless: '/naming/v1/lossless/rules', 'block-allow': '/naming/v1/blockallow/rules', 'traffic-mirroring': '/naming/v1/trafficmirroring/rules', 'fault-injection': '/naming/v1/faultinjection/rules', 'routing-v1': '/naming/v1/routings',
}

/** All leaves of a value with their places, without those that each write changes. */
function leaves(value: unknown, at = ''): string[] {
  if (Array.isArray(value)) return value.flatMap((one, index) => leaves(one, `${at}/${index}`))
  if (isRecord(value)) return Object.entries(value).filter(([name]) => !['revision', 'ctime', 'mtime', 'etime'].includes(name)).flatMap(([name, one]) => leaves(one, `${at}/${name}`))
  return [`${at} ${JSON.stringify(value)}`]
}

test('rules with every field that come by the API of Polaris open in their forms and are saved without loss', async ({ page }) => {
  test.slow()
  await withSettings({}, async (gateway) => {
    await gateway.call('POST', '/registry/v1/services', { namespace: 'default', name: 'orders' })
    await signIn(page, gateway, ADMIN, '/ui/registry/rules')
    // Routing and lanes have two shapes each.
    const cases = [...RULE_KINDS.map((kind) => [kind, 0] as const), ['routing', 1] as const, ['lane', 1] as const]
    for (const [kind, shape] of cases) {
      const at = `${kind} ${shape}`
      const rule = whole(await schemaOf(gateway, kind), '', shape) as Record<string, unknown>
      if (kind === 'routing') rule.routing_policy = shape === 0 ? 'RulePolicy' : 'MetadataPolicy'
      if (kind === 'nearby-routing') rule.routing_policy = 'NearbyPolicy'
      if (kind === 'routing-v1') delete rule.rules
      const made = await gateway.polaris('POST', POLARIS[kind], [rule])
      expect(made.status, `${at}: ${await made.clone().text()}`).toBe(200)
      const read = async () => (await (await gateway.call('GET', `/registry/v1/rules/${kind}?sort=-changed`)).json()).list.at(0) as { id: string; rule: Record<string, unknown> }
      const { id, rule: before } = await read()
      // Everything that was sent is there.
      const stored = new Set(leaves(before))
      expect(leaves(rule).filter((leaf) => !stored.has(leaf)), at).toEqual([])
      await page.goto(`${gateway.admin}/ui/registry/rules/${kind}/${segmentOf(id)}`)
      await expect(page.locator('.views .fields').first(), at).toBeVisible()
      await expect(page.locator('[data-raw]'), at).toHaveCount(0)
      const folded = page.locator('.views details:not([open]) > summary')
      while ((await folded.count()) > 0) await folded.first().click()
      const labels = page.locator('.views').getByRole('textbox', { name: 'some', exact: true }).last()
      await labels.fill('changed')
      await page.getByRole('button', { name: 'Review' }).click()
      await page.getByRole('button', { name: 'Save' }).click()
      await expect(page.getByRole('heading', { level: 1, name: 'Governance rules' }), at).toBeVisible()
      const { rule: after } = await read()
      const lost = leaves(before).filter((leaf) => !leaves(after).includes(leaf))
      expect(lost, at).toHaveLength(1)
      expect(lost[0], at).toMatch(/some "text"$/)
      const gained = leaves(after).filter((leaf) => !leaves(before).includes(leaf))
      expect(gained, at).toEqual([lost[0]?.replace('"text"', '"changed"')])
      await gateway.call('DELETE', `/registry/v1/rules/${kind}/${encodeURIComponent(id)}`)
    }
  })
})
