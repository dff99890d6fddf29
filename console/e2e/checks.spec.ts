/** Acceptance checks that no other file has: alternatives of a plugin, a list that is held, results of the CLI, who has tried what. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ADMIN, expect, program, signIn, test, VIEWER, withSettings } from './gateway'

test('a limit counts by one amount or by several, and asks for Redis only where it counts there', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/sides', { uri: '/sides', plugins: { 'limit-count': { count: 5, time_window: 60, rejected_code: 429 } }, upstream: { nodes: { [gateway.origin]: 1 } } })
  const limit = async () => (await (await gateway.call('GET', '/apisix/admin/routes/sides')).json()).value.plugins['limit-count'] as Record<string, unknown>
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/sides/edit')
  const form = page.locator('.form')
  await expect(form.getByRole('textbox', { name: 'Requests allowed', exact: true })).toHaveValue('5')
  await expect(form.getByText('redis_host', { exact: true })).toHaveCount(0)
  const folded = form.locator('.plugin details:not([open]) > summary')
  while ((await folded.count()) > 0) await folded.first().click()
  await expect(form.getByLabel('Redis host')).toHaveCount(0)
  const policy = form.locator('.field', { has: page.locator('code', { hasText: /^policy$/ }) }).getByRole('combobox')
  await policy.selectOption('"redis"')
  await expect(form.locator('code', { hasText: /^redis_host$/ })).toHaveCount(1)
  // The default, which is none of these.
  await policy.selectOption('')
  await expect(form.locator('code', { hasText: /^redis_host$/ })).toHaveCount(0)
  // One side at a time: what is left goes out of the document.
  await page.getByRole('radio', { name: 'Several limits' }).check()
  await expect(page.getByRole('radio', { name: 'Several limits' })).toBeChecked()
  await page.getByText('JSON', { exact: true }).click()
  await expect(page.getByRole('textbox', { name: 'JSON' })).not.toHaveValue(/"count"/)
  await page.getByText('Form', { exact: true }).click()
  await page.getByRole('radio', { name: 'One limit' }).check()
  // The amount of the request itself is a text, and a number stays a number.
  await form.getByRole('textbox', { name: 'Requests allowed', exact: true }).fill('$http_x_limit')
  await form.getByRole('textbox', { name: 'Per', exact: true }).fill('60')
  await expect(page.getByText('Valid', { exact: true })).toBeVisible()
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect.poll(async () => (await limit()).count).toBe('$http_x_limit')
})

test('a list of requests that is paused holds still, and goes on', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/requests')
  await fetch(`${gateway.plane}/held-before`)
  await expect(page.getByRole('row', { name: /held-before/ }).first()).toBeVisible()
  await page.getByRole('button', { name: 'Pause' }).click()
  const rows = page.locator('tbody tr')
  const count = await rows.count()
  await fetch(`${gateway.plane}/held-after`)
  // The request is recorded: another reader of the same list has it.
  await expect.poll(async () => await (await gateway.call('GET', '/console/v1/requests?page_size=50')).text()).toContain('held-after')
  await expect(rows).toHaveCount(count)
  await expect(page.getByRole('row', { name: /held-after/ })).toHaveCount(0)
  await page.getByRole('button', { name: 'Resume' }).click()
  await expect(page.getByRole('row', { name: /held-after/ }).first()).toBeVisible()
})

test('the report of a measurement on the page is the one that the CLI makes of its result', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  await gateway.call('PUT', '/apisix/admin/routes/same', { uri: '/same', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/bench')
  for (const [label, value] of [['URL', `${gateway.plane}/same`], ['Name', 'same'], ['Connections', '2'], ['Seconds each', '1'], ['Repetitions', '1']] as const) await page.getByLabel(label).fill(value)
  await page.getByRole('button', { name: 'Start' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'same' })).toBeVisible()
  const path = `/console/v1/bench/runs/${page.url().split('/').at(-1)}`
  await expect.poll(async () => (await (await gateway.call('GET', path)).json()).end, { timeout: 60_000 }).toBe('done')
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  writeFileSync(join(folder, 'result.json'), await (await gateway.call('GET', `${path}/result`)).text())
  const own = await (await gateway.call('GET', `${path}/page`)).text()
  const cli = execFileSync(program, ['bench', 'report', join(folder, 'result.json'), '--format', 'html'], { maxBuffer: 64 << 20 }).toString()
  rmSync(folder, { recursive: true })
  const verdict = (html: string) => /class="verdict"[^>]*>([\s\S]*?)<\/(p|section|div|h2)>/.exec(html)?.[1]
  expect(verdict(own)).toBeTruthy()
  expect(verdict(own)).toBe(verdict(cli))
  expect(own.length).toBe(cli.length)
})

test('changes name who has made them and how, and tell of refused attempts', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    const route = (uri: string) => ({ uri, upstream: { nodes: { '127.0.0.1:1': 1 } } })
    await gateway.call('PUT', '/apisix/admin/routes/by-curl', route('/a'))
    await signIn(page, gateway, ADMIN, '/ui/objects/routes/by-curl/edit?view=json')
    const editor = page.getByRole('textbox', { name: 'JSON' })
    await editor.fill((await editor.inputValue()).replace('"/a"', '"/b"'))
    await page.getByRole('button', { name: 'Review' }).click()
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('button', { name: 'Delete' })).toBeVisible()
    await page.goto(`${gateway.admin}/ui/changes/import`)
    await page.getByRole('textbox', { name: 'Document' }).fill(JSON.stringify({ routes: [{ id: 'by-import', ...route('/c') }] }))
    await page.getByRole('button', { name: 'Show what would change' }).click()
    await page.getByRole('button', { name: /^Apply/ }).click()
    await expect(page.getByText('admin · import')).toBeVisible()
    expect((await fetch(`${gateway.admin}/apisix/admin/routes/by-viewer`, { method: 'PUT', headers: { 'X-API-KEY': VIEWER, Connection: 'close' }, body: JSON.stringify(route('/d')) })).status).toBe(401)
    await page.goto(`${gateway.admin}/ui/changes`)
    for (const [id, way] of [['by-curl', 'API'], ['by-curl', 'console'], ['by-import', 'import']] as const) {
      await expect(page.locator('tr').filter({ hasText: id }).filter({ hasText: 'admin' }).filter({ has: page.getByText(way, { exact: true }) }), `${id} ${way}`).toHaveCount(1)
    }
    const refused = page.locator('section', { has: page.getByRole('heading', { name: 'Refused attempts' }) })
    await expect(refused.locator('tr').filter({ hasText: 'by-viewer' })).toContainText('viewer')
  })
})
