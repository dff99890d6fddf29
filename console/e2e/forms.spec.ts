/** Forms of objects: form and text as two views of one document, faults at their fields, what is not edited stays. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRecord, planOf, type Schema } from '../src/form/plan'
import { certificate } from './certificate'
import { ADMIN, expect, signIn, test } from './gateway'

interface Examples { [kind: string]: Record<string, unknown>[] }

/** The examples of objects, with a real certificate where one is asked for. */
function examples(): Examples {
  const text = readFileSync(join(import.meta.dirname, '../src/form/examples.json'), 'utf8')
  const { cert, key } = certificate('shop.example.com')
  return JSON.parse(text.replaceAll('"CERT"', JSON.stringify(cert)).replaceAll('"KEY"', JSON.stringify(key))) as Examples
}

test('objects of every kind are opened and saved unedited without a write', async ({ page, gateway }) => {
  test.setTimeout(600_000)
  const all = examples()
  await gateway.call('PUT', '/apisix/admin/upstreams/orders', { nodes: { [gateway.origin]: 1 } })
  await signIn(page, gateway)
  let writes = 0
  page.on('request', (request) => { if (request.method() !== 'GET' && new URL(request.url()).pathname.startsWith('/apisix/')) writes += 1 })
  for (const [kind, objects] of Object.entries(all)) {
    for (const [at, object] of objects.entries()) {
      const id = String(object.username ?? object.id ?? `example-${at}`)
      const path = kind === 'consumers' ? '/apisix/admin/consumers' : `/apisix/admin/${kind}/${id}`
      // What metadata are of stands in their path alone.
      const answer = await gateway.call('PUT', path, kind === 'plugin_metadata' ? { ...object, id: undefined } : object)
      expect(answer.ok, `${kind} ${id}: ${await answer.clone().text()}`).toBe(true)
      const before = await (await gateway.call('GET', `/apisix/admin/${kind}/${id}`)).text()
      await page.goto(`${gateway.admin}/ui/objects/${kind}/${encodeURIComponent(id)}/edit?view=both`)
      const text = page.getByRole('textbox', { name: 'JSON', exact: true })
      await expect(text, `${kind} ${id}`).toBeVisible()
      await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
      // Each field has the focus once and loses it, as with somebody who looks for one and edits none.
      const fields = page.locator('.views input:not([type=checkbox]), .views textarea, .views select')
      await expect(fields.nth(1), `${kind} ${id}`).toBeAttached()
      await fields.evaluateAll((all) => { for (const field of all) field.focus() })
      await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
      expect(await (await gateway.call('GET', `/apisix/admin/${kind}/${id}`)).text()).toBe(before)
    }
  }
  expect(writes).toBe(0)
  for (const [kind, objects] of Object.entries(all)) for (const [at, object] of objects.entries()) if (kind !== 'consumers') await gateway.call('DELETE', `/apisix/admin/${kind}/${String(object.id ?? `example-${at}`)}`)
})

/** Fields of plugins that stay text: JSON Schemas, which are documents of their own, and values of any kind. */
const TEXT = /^(request-validation \/(header|body)_schema|mocking \/response_schema|example-plugin \/t\/0)$/

test('every field of every plugin has a form, but for a listed few', async ({ gateway }) => {
  const all = (await (await gateway.call('GET', '/apisix/admin/plugins?all=true')).json()) as Record<string, { schema: Schema; consumer_schema?: Schema; metadata_schema?: Schema }>
  const found: string[] = []
  const visit = (plugin: string, schema: Schema, path: (string | number)[]) => {
    const last = path.at(-1)
    const plan = planOf(schema, undefined, typeof last === 'string' ? last : '')
    if (plan.kind === 'raw') found.push(`${plugin} /${path.join('/')}`)
    if (plan.kind === 'object') for (const { name, schema: inner } of plan.members) visit(plugin, inner, [...path, name])
    if (plan.kind === 'list') visit(plugin, plan.item, [...path, 0])
    if (plan.kind === 'either') for (const variant of plan.variants) visit(plugin, variant, path)
  }
  for (const [name, { schema, consumer_schema, metadata_schema }] of Object.entries(all)) {
    for (const one of [schema, consumer_schema, metadata_schema]) if (isRecord(one)) visit(name, { ...one, type: 'object' }, [])
  }
  expect([...new Set(found)].filter((it) => !TEXT.test(it) && !it.endsWith(' /'))).toEqual([])
})

test('what a logger writes and what a workflow does are edited field by field', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/fields', { uri: '/fields', plugins: { 'file-logger': { path: 'tollhouse-fields.log', log_format: { host: '$host' } }, workflow: { rules: [{ actions: [['return', { code: 403 }]] }] } }, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/fields/edit?view=both')
  const json = page.getByRole('textbox', { name: 'JSON', exact: true })
  const plugins = async () => JSON.parse(await json.inputValue()).plugins
  const logger = page.locator('[data-plugin=file-logger]')
  await logger.getByLabel('host', { exact: true }).fill('$http_host')
  await page.getByLabel('New name in log_format').fill('at')
  await page.getByLabel('New name in log_format').press('Enter')
  await logger.getByLabel('at', { exact: true }).fill('$time_iso8601')
  await expect.poll(async () => (await plugins())['file-logger'].log_format).toEqual({ host: '$http_host', at: '$time_iso8601' })
  await page.getByLabel('Code', { exact: true }).fill('429')
  await expect.poll(async () => (await plugins()).workflow.rules[0].actions).toEqual([['return', { code: 429 }]])
  await page.getByLabel('Action 1').selectOption('limit-count')
  await page.getByLabel('Requests allowed', { exact: true }).fill('5')
  await expect.poll(async () => (await plugins()).workflow.rules[0].actions).toEqual([['limit-count', { time_window: 60, rejected_code: 429, count: 5 }]])
  page.on('dialog', (dialog) => void dialog.accept())
})

test('who comes from the page of a route edits its plugins by their forms', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/from-page', { uri: '/from-page', plugins: { 'limit-count': { count: 5, time_window: 60 } }, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/from-page')
  await expect(page.getByRole('list', { name: 'Request path' })).toContainText('access')
  await page.getByRole('link', { name: 'Edit' }).click()
  await expect(page.getByLabel('Per', { exact: true })).toHaveValue('60')
  await expect(page.locator('[data-raw]')).toHaveCount(0)
})
