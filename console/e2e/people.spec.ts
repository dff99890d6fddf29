/** What people come for first, done by what they see: titles, buttons and nothing of the API. */
import type { Page } from '@playwright/test'
import { PLUGIN_LAYERS } from '../src/form/layers/plugins/all'
import { namesOf } from '../src/form/layers/layer'
import { planOf, type Schema } from '../src/form/plan'
import { certificate } from './certificate'
import { ADMIN, expect, signIn, test } from './gateway'

/** Drops a file with this text on a field. */
async function dropOn(page: Page, label: string, name: string, text: string) {
  const data = await page.evaluateHandle(([file, content]) => {
    const transfer = new DataTransfer()
    transfer.items.add(new File([content as string], file as string))
    return transfer
  }, [name, text])
  await page.getByLabel(label, { exact: true }).dispatchEvent('drop', { dataTransfer: data })
}

test('a first route with a rate limit is made by its form, and limits', async ({ page, gateway }) => {
  const [host, port] = gateway.origin.split(':') as [string, string]
  await signIn(page, gateway)
  await page.getByRole('link', { name: 'Routes', exact: true }).click()
  await page.getByRole('link', { name: 'New' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'New route' })).toBeVisible()
  // What is still needed is said, and nothing is red.
  await expect(page.getByText('Still needed: Path')).toBeVisible()
  await expect(page.locator('[aria-invalid=true], .field-error')).toHaveCount(0)
  await page.getByLabel('Path', { exact: true }).fill('/limited')
  await page.getByLabel('Address 1').fill(host)
  await page.getByLabel('Port 1').fill(port)
  await page.getByRole('button', { name: 'Add plugin' }).click()
  await page.getByRole('textbox', { name: 'Search by name or purpose' }).fill('limits the number of requests')
  await page.getByRole('dialog').getByRole('button', { name: /^limit-count / }).click()
  await expect(page.getByLabel('Requests allowed')).toBeFocused()
  await page.getByLabel('Requests allowed').fill('2')
  await page.getByRole('button', { name: 'Review' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.locator('.saved')).toContainText('Saved as revision')
  const statuses: number[] = []
  for (let count = 0; count < 3; count += 1) statuses.push((await fetch(`${gateway.plane}/limited`)).status)
  expect(statuses).toEqual([200, 200, 429])
  // Nothing was stored that nobody asked for.
  const id = page.url().split('/').at(-1) as string
  const { value } = await (await gateway.call('GET', `/apisix/admin/routes/${id}`)).json()
  const { id: _, create_time: __, update_time: ___, ...own } = value
  expect(own).toEqual({ uri: '/limited', upstream: { nodes: [{ host, port: Number(port), weight: 1 }] }, plugins: { 'limit-count': { time_window: 60, rejected_code: 429, count: 2 } } })
  await gateway.call('DELETE', `/apisix/admin/routes/${id}`)
})

test('a certificate is pasted and its key dropped, both with all their lines', async ({ page, gateway, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const { cert, key } = certificate('pasted.example.com')
  await signIn(page, gateway)
  await page.getByRole('link', { name: 'Certificates', exact: true }).click()
  await page.getByRole('link', { name: 'New' }).first().click()
  await page.evaluate((text) => navigator.clipboard.writeText(text), cert)
  await page.getByLabel('Certificate chain', { exact: true }).click()
  await page.keyboard.press('Control+v')
  await expect(page.getByLabel('Certificate chain', { exact: true })).toHaveValue(cert)
  await expect(page.getByText('1 × CERTIFICATE')).toBeVisible()
  await dropOn(page, 'Private key', 'shop.key', key)
  await expect(page.getByLabel('Private key', { exact: true })).toHaveValue(key)
  await page.getByLabel('Host names 1').fill('pasted.example.com')
  await page.getByRole('button', { name: 'Review' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.locator('.saved')).toContainText('Saved as revision')
  const { rows } = await (await gateway.call('GET', '/console/v1/objects/ssls?q=pasted.example.com')).json()
  const { value } = await (await gateway.call('GET', `/apisix/admin/ssls/${rows[0].id}`)).json()
  expect(value).toMatchObject({ cert, snis: ['pasted.example.com'] })
  // The key is never given back: it is replaced, and not read.
  await page.goto(`${gateway.admin}/ui/objects/ssls/${rows[0].id}/edit`)
  await expect(page.getByLabel('Private key', { exact: true })).toHaveAttribute('placeholder', 'set; never shown')
  await expect(page.getByText('Still needed')).toHaveCount(0)
  expect(await page.content()).not.toContain(key.split('\n')[1])
  await gateway.call('DELETE', `/apisix/admin/ssls/${rows[0].id}`)
})

test('a file that is chosen or is none of text is told from one of PEM', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/new/ssls')
  await page.locator('[data-file=cert]').setInputFiles({ name: 'a.der', mimeType: 'application/octet-stream', buffer: Buffer.from([0x30, 0x82, 0x00, 0xff]) })
  await expect(page.getByText('This file is not text. Convert it to PEM first.')).toBeVisible()
  await page.locator('[data-file=cert]').setInputFiles({ name: 'a.pem', mimeType: 'text/plain', buffer: Buffer.from(certificate('a.example').cert) })
  await expect(page.getByText('1 × CERTIFICATE')).toBeVisible()
  page.on('dialog', (dialog) => void dialog.accept())
})

test("a selector of ShenYu is made with its nodes by names instead of numbers", async ({ page, gateway }) => {
  await signIn(page, gateway)
  await page.getByRole('link', { name: 'Selectors', exact: true }).click()
  await page.getByRole('link', { name: 'New' }).click()
  await page.getByLabel('Name', { exact: true }).fill('with nodes')
  await page.getByRole('combobox', { name: 'Plugin', exact: true }).fill('divide')
  await page.getByRole('option', { name: 'divide' }).first().click()
  await page.getByLabel('Look at').selectOption('Path')
  await page.getByLabel('Comparison').selectOption('starts with')
  await page.getByLabel('Value', { exact: true }).fill('/with-nodes/')
  await page.getByRole('button', { name: 'Add to Nodes' }).click()
  await page.getByLabel('Address', { exact: true }).fill(gateway.origin)
  await page.getByLabel('Weight', { exact: true }).fill('50')
  await page.getByRole('button', { name: 'Review' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('link', { name: 'with nodes' })).toBeVisible()
  const { dataList } = (await (await gateway.call('GET', '/console/v1/shenyu/selector?name=with%20nodes')).json()).data
  expect(dataList[0]).toMatchObject({ pluginName: 'divide', type: 1, matchMode: 0, selectorConditions: [{ paramType: 'uri', operator: 'startsWith', paramValue: '/with-nodes/' }] })
  expect(JSON.parse(dataList[0].handle)).toEqual([{ upstreamUrl: gateway.origin, weight: 50 }])
})

test('an upstream is found while a route is made, and what is misspelt is told with what was meant', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/upstreams/found-by-form', { name: 'Found by form', nodes: { [gateway.origin]: 1 } })
  await signIn(page, gateway, ADMIN, '/ui/new/routes')
  await page.getByRole('radio', { name: 'Several paths' }).check()
  await page.getByLabel('Paths 1').fill('/found')
  await page.getByRole('radio', { name: 'An upstream' }).check()
  const upstream = page.getByRole('combobox', { name: 'Upstream', exact: true })
  await upstream.fill('found by')
  await expect(page.getByRole('link', { name: /Create new/ })).toHaveAttribute('href', '/ui/new/upstreams')
  await page.getByRole('option', { name: /Found by form/ }).click()
  await expect(upstream).toHaveValue('Found by form · found-by-form')
  await page.getByText('JSON', { exact: true }).click()
  const json = page.getByRole('textbox', { name: 'JSON' })
  expect(JSON.parse(await json.inputValue())).toEqual({ uris: ['/found'], upstream_id: 'found-by-form' })
  await json.fill('{"uris": ["/found"], "upstream_id": "found-by-form", "plugins": {"key-auht": {}}}')
  await expect(page.getByRole('alert')).toContainText('did you mean "key-auth"?')
  await page.getByRole('button', { name: 'Use key-auth' }).click()
  await expect(page.getByRole('alert')).toHaveCount(0)
  expect(JSON.parse(await json.inputValue()).plugins).toEqual({ 'key-auth': {} })
  page.on('dialog', (dialog) => void dialog.accept())
})

test('the state of nodes stands beside them, and conditions read as sentences', async ({ page, gateway }) => {
  const checks = { active: { type: 'tcp', healthy: { interval: 1, successes: 1 }, unhealthy: { interval: 1, tcp_failures: 1 } } }
  await gateway.call('PUT', '/apisix/admin/upstreams/stateful', { nodes: { [gateway.origin]: 1, '127.0.0.1:1': 1 }, checks })
  await gateway.call('PUT', '/apisix/admin/routes/stateful', { uri: '/stateful', vars: [['arg_version', '==', '2']], upstream_id: 'stateful' })
  await fetch(`${gateway.plane}/stateful?version=2`)
  await signIn(page, gateway, ADMIN, '/ui/objects/upstreams/stateful/edit')
  await expect(page.getByRole('group', { name: 'Node 1' })).toContainText('healthy')
  await expect(page.getByRole('group', { name: 'Node 2' })).toContainText('unhealthy')
  await page.goto(`${gateway.admin}/ui/objects/routes/stateful/edit`)
  const condition = page.getByRole('group', { name: 'Condition 1' })
  await expect(condition.getByRole('combobox').first()).toHaveValue('arg_')
  await condition.getByRole('combobox').first().selectOption('Header')
  await condition.getByRole('combobox').nth(1).selectOption('is one of')
  await page.getByLabel('Condition 1: value').fill('2, 3')
  await page.getByText('Both', { exact: true }).click()
  await expect.poll(async () => JSON.parse(await page.getByRole('textbox', { name: 'JSON' }).inputValue()).vars).toEqual([['http_version', 'in', ['2', '3']]])
  page.on('dialog', (dialog) => void dialog.accept())
})

test('layers of plugins name only fields that plugins have', async ({ gateway }) => {
  const all = (await (await gateway.call('GET', '/apisix/admin/plugins?all=true')).json()) as Record<string, { schema: Schema; consumer_schema?: Schema }>
  const wrong: string[] = []
  for (const [name, { layer, identity, start }] of Object.entries(PLUGIN_LAYERS)) {
    const membersOf = (schema: Schema | undefined) => {
      const plan = planOf({ ...schema, type: 'object' }, {})
      return plan.kind === 'object' ? plan.members.map((member) => member.name) : []
    }
    const [own, consumer] = [membersOf(all[name]?.schema), membersOf(all[name]?.consumer_schema)]
    for (const field of [...(layer ? namesOf(layer) : []), ...Object.keys(start ?? {})]) if (!own.includes(field)) wrong.push(`${name} ${field}`)
    for (const field of identity ? namesOf(identity) : []) if (!consumer.includes(field)) wrong.push(`${name} of a consumer: ${field}`)
  }
  expect(wrong).toEqual([])
})
