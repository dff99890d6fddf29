/** Pages of other websites and names full of markup: neither reads, writes or runs anything. */
import { request } from 'node:http'
import { ADMIN, expect, signIn, test } from './gateway'

test('ids of all letters that ids may have open, are edited and deleted, on their pages and after a reload', async ({ page, gateway }) => {
  const ids = ['vault/a..b', 'vault/-x_', 'vault/...']
  await signIn(page, gateway)
  for (const id of ids) {
    const path = `/apisix/admin/secrets/${id.split('/').map(encodeURIComponent).join('/')}`
    expect((await gateway.call('PUT', path, { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'hush' })).status, id).toBe(201)
    await page.goto(`${gateway.admin}/ui/objects/secrets`)
    await page.getByRole('link', { name: id, exact: true }).click()
    await expect(page.getByRole('heading', { level: 1, name: id, exact: true })).toBeVisible()
    await page.reload()
    await expect(page.getByRole('heading', { level: 1, name: id, exact: true })).toBeVisible()
    await page.getByRole('link', { name: 'Edit' }).click()
    await page.getByLabel('Path of the secrets', { exact: true }).fill('other')
    await page.keyboard.press('Control+s')
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('heading', { level: 1, name: id, exact: true })).toBeVisible()
    expect((await (await gateway.call('GET', path)).json()).value.prefix, id).toBe('other')
    await page.getByRole('row', { name: /replaced/ }).first().getByRole('link').first().click()
    await expect(page.locator('.diff')).toContainText('other')
    await page.getByRole('link', { name: id, exact: true }).click()
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill(id)
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect.poll(async () => (await gateway.call('GET', path)).status).toBe(404)
  }
  for (const name of ['a/b', '../up']) {
    await gateway.call('POST', '/registry/v1/instances', { service: name, host: '10.0.0.1', port: 1, healthy: true })
    await page.goto(`${gateway.admin}/ui/registry`)
    await page.getByRole('link', { name, exact: true }).click()
    await expect(page.getByRole('cell', { name: '10.0.0.1:1', exact: true })).toBeVisible()
    await page.reload()
    await expect(page.getByRole('cell', { name: '10.0.0.1:1', exact: true })).toBeVisible()
  }
})

test('a path of a stranger shows each of its letters, and is explained as what it is', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/hostile', { uri: '/hostile*', upstream: { nodes: { '127.0.0.1:1': 1 } } })
  const path = '/hostile%1b%5B31m%0aline%3Cimg%20src=x%20onerror=alert(1)%3E%e2%80%ae%3Fq%23f'
  const status = () => new Promise<number>((resolve, reject) => {
    const sent = request(gateway.plane + path, (got) => { got.resume(); resolve(got.statusCode ?? 0) })
    sent.once('error', reject)
    sent.end()
  })
  await expect.poll(status).toBe(502)
  await signIn(page, gateway, ADMIN, '/ui/requests')
  const row = page.getByRole('button', { name: /%1B\[31m%0Aline<img src=x onerror=alert\(1\)>%E2%80%AE/ }).first()
  await expect(row).toBeVisible()
  await row.click()
  await page.getByRole('dialog').getByRole('link', { name: 'Explain' }).click()
  await expect(page.getByRole('heading', { name: 'Route hostile matches' })).toBeVisible()
  expect(await page.locator('img').count()).toBe(0)
})
