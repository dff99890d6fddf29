/** What screens say in situations that are none of their own. */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { faults, faultsOfColours } from './axe'
import { ADMIN, expect, program, signIn, test, withFresh } from './gateway'

test('an address of nothing says so, and no page is white', async ({ page, gateway }) => {
  await signIn(page, gateway)
  const addresses: [string, string][] = [
    ['/ui/objects/nokind', 'There is no such page.'], ['/ui/objects/nokind/1', 'There is no such page.'], ['/ui/objects/nokind/1/edit', 'There is no such page.'], ['/ui/new/nokind', 'There is no such page.'],
    ['/ui/objects/routes/never', 'Route never'], ['/ui/objects/routes/never/edit', 'Route never'], ['/ui/changes/never', 'Changes'], ['/ui/bench/never', 'Load generator'], ['/ui/plugins/never', 'never'], ['/ui/registry/default/never', 'never'],
  ]
  for (const [address, heading] of addresses) {
    await page.goto(gateway.admin + address)
    await expect(page.getByRole('heading', { level: 1, name: heading, exact: true }), address).toBeVisible()
    await expect(page.locator('#content')).not.toHaveText('')
  }
})

test('who edits what another deletes is told who, and loses nothing', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/deleted', { uri: '/deleted', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/deleted/edit?view=json')
  const editor = page.getByRole('textbox', { name: 'JSON' })
  await editor.fill((await editor.inputValue()).replace('"/deleted"', '"/mine"'))
  await gateway.call('DELETE', '/apisix/admin/routes/deleted')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  const told = page.getByRole('alert')
  await expect(told).toContainText('This object was deleted')
  await expect(told).toContainText(/Deleted by admin as revision \d+/)
  await expect(editor).toHaveValue(/"\/mine"/)
  await told.getByRole('button', { name: 'Create it again with my version' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Delete' })).toBeEnabled()
  expect((await (await gateway.call('GET', '/apisix/admin/routes/deleted')).json()).value.uri).toBe('/mine')
})

test('an object of thousands of lines opens, is edited and saved', async ({ page, gateway }) => {
  const vars = Array.from({ length: 400 }, (_, at) => [`arg_${at}`, '==', 'y'.repeat(450)])
  expect((await gateway.call('PUT', '/apisix/admin/routes/large', { uri: '/large', desc: 'before', vars, upstream: { nodes: { [gateway.origin]: 1 } } })).status).toBe(201)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/large/edit')
  await expect(page.getByText('200 more in the JSON view.')).toBeVisible()
  await page.getByLabel('Description', { exact: true }).fill('after')
  await page.keyboard.press('Control+s')
  await expect(page.locator('.diff .new')).toHaveCount(1)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Delete' })).toBeEnabled()
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/large')).json()
  expect([value.desc, value.vars.length]).toEqual(['after', vars.length])
  await gateway.call('DELETE', '/apisix/admin/routes/large')
})

test('keys of the screens do what the help says', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/pressed', { uri: '/pressed', plugins: { 'limit-count': { count: 5, time_window: 60, rejected_code: 7 } }, upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await gateway.call('PUT', '/apisix/admin/routes/pressed', { uri: '/pressed', plugins: { 'limit-count': { count: 5, time_window: 60 } }, upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/pressed`)).status).toBe(502)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/pressed/edit')
  const json = page.getByRole('textbox', { name: 'JSON' })
  await expect(page.getByLabel('Path', { exact: true })).toBeVisible()
  await page.keyboard.press('Control+e')
  await expect(json).toBeVisible()
  await expect(page.getByLabel('Path', { exact: true })).toHaveCount(0)
  await page.keyboard.press('Control+e')
  await expect(json).toHaveCount(0)
  await page.goto(`${gateway.admin}/ui/objects/routes/pressed/edit?view=form`)
  await page.getByLabel('Requests allowed', { exact: true }).fill('0')
  await page.getByLabel('Per', { exact: true }).fill('0')
  await expect(page.getByLabel('Per', { exact: true })).toHaveAttribute('aria-invalid', 'true')
  await page.getByLabel('Path', { exact: true }).focus()
  await page.keyboard.press('Alt+ArrowDown')
  await expect(page.locator(':focus')).toHaveAttribute('aria-invalid', 'true')
  const first = await page.locator(':focus').getAttribute('id')
  await page.keyboard.press('Alt+ArrowDown')
  await expect(page.locator(':focus')).not.toHaveAttribute('id', first as string)
  page.on('dialog', (dialog) => void dialog.accept())
  await page.goto(`${gateway.admin}/ui/objects/routes/pressed`)
  await expect(page.getByRole('heading', { level: 1 })).toBeFocused()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('heading', { level: 1, name: 'Routes' })).toBeVisible()
  await page.goto(`${gateway.admin}/ui/requests?q=pressed`)
  await page.getByRole('button', { name: /GET .*\/pressed/ }).first().focus()
  await page.keyboard.press('f')
  await expect(page.getByRole('button', { name: /code: upstream_connect_failed/ })).toBeVisible()
  await page.goto(`${gateway.admin}/ui/explain`)
  await page.getByLabel('URL').fill(`${gateway.plane}/pressed`)
  await page.getByLabel('Headers, one per line').focus()
  await page.keyboard.press('Control+Enter')
  await expect(page.getByRole('heading', { name: 'Route pressed matches' })).toBeVisible()
})

test('what matches nothing names the filters, and what fails says how old the rest is', async ({ page, gateway, violations }) => {
  await gateway.call('PUT', '/apisix/admin/upstreams/age', { nodes: { [gateway.origin]: 1 } })
  await signIn(page, gateway)
  for (const path of ['/ui/nodes?q=zebra', '/ui/plugins?q=zebra', '/ui/certificates?q=zebra', '/ui/registry?q=zebra', '/ui/settings?q=zebra', '/ui/changes?actor=zebra', '/ui/registry/rules?service=zebra', '/ui/objects/routes?q=zebra']) {
    await page.goto(gateway.admin + path)
    await expect(page.locator('.empty'), path).toContainText('Nothing matches')
    await expect(page.locator('.empty'), path).toContainText('zebra')
    await page.locator('.empty').getByRole('button', { name: 'Clear' }).click()
    await expect(page.getByText('Nothing matches'), path).toHaveCount(0)
  }
  await page.goto(`${gateway.admin}/ui/objects/upstreams?page=999`)
  await expect(page.locator('.empty')).toContainText('Page 999')
  await page.goto(`${gateway.admin}/ui/nodes`)
  await expect(page.getByRole('row', { name: /age/ })).toBeVisible()
  await page.route(/console\/v1\/nodes/, (route) => route.fulfill({ status: 503, body: '{"error_msg":"the store is away"}' }))
  await expect(page.getByRole('alert')).toContainText('What is shown is from')
  await expect(page.getByRole('row', { name: /age/ })).toBeVisible()
  await page.unroute(/console\/v1\/nodes/)
  violations.length = 0
})

test('axe finds nothing on dialogs, in both themes', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  await gateway.call('PUT', '/apisix/admin/upstreams/dialog', { nodes: { '127.0.0.1:1': 1 } })
  await gateway.call('PUT', '/apisix/admin/routes/dialog', { uri: '/dialog', upstream_id: 'dialog' })
  await gateway.call('PUT', '/apisix/admin/consumers', { username: 'dialog' })
  await gateway.call('POST', '/registry/v1/instances', { service: 'dialog', host: '10.8.0.1', port: 1, healthy: true })
  await expect.poll(async () => (await fetch(`${gateway.plane}/dialog`)).status).toBe(502)
  const found: string[] = []
  const openings: [string, string][] = [
    ['/ui/', 'Control+k'], ['/ui/', '?'], ['/ui/objects/upstreams/dialog', '[data-delete]'], ['/ui/objects/upstreams/dialog', '[data-copy]'], ['/ui/registry/default/dialog', '[data-isolate]'], ['/ui/registry/default/dialog', '[data-new]'],
    ['/ui/objects/consumers/dialog', '[data-add]'], ['/ui/requests?q=dialog', 'tbody button'], ['/ui/', 'header [aria-haspopup=menu]'],
  ]
  await signIn(page, gateway)
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' })
    for (const [path, opening] of openings) {
      await page.goto(gateway.admin + path)
      await expect(page.getByRole('heading', { level: 1 })).toBeFocused()
      if (/[[ ]/.test(opening)) await page.locator(opening).first().click()
      else await page.keyboard.press(opening)
      await expect(page.locator('[role=dialog], [role=menu]:popover-open').first()).toBeVisible()
      for (const fault of await faults(page)) found.push(`${colorScheme} ${path} ${opening}: ${fault}`)
    }
  }
  // The errors of fields, too.
  await page.goto(`${gateway.admin}/ui/new/ssls`)
  await page.getByRole('button', { name: 'Review' }).click()
  await expect(page.locator('[aria-invalid=true]').first()).toBeVisible()
  for (const colorScheme of ['light', 'dark'] as const) {
    await page.emulateMedia({ colorScheme })
    for (const fault of await faultsOfColours(page)) found.push(`${colorScheme} /ui/new/ssls: ${fault}`)
  }
  expect(found).toEqual([])
})

test('every object that is copied for the CLI or curl is made again by the command', async ({ page, gateway, context }) => {
  test.setTimeout(300_000)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const upstream = { nodes: { [gateway.origin]: 1 } }
  const objects: Record<string, object> = {
    'routes/twin': { uri: '/twin', desc: 'it\'s "so": $(no) \\ `x`\nTOLLHOUSE\n#END', labels: { on: 'off', n: '1' }, priority: 0, upstream },
    'upstreams/twin': upstream, 'services/twin': { upstream }, 'global_rules/twin': { plugins: { 'request-id': {} } }, 'plugin_configs/twin': { plugins: { cors: {} } },
    'consumers/twin': { username: 'twin', plugins: { 'key-auth': { key: 'copied-key' } } }, 'consumer_groups/twin': { plugins: {} },
    'protos/twin': { content: 'syntax = "proto3";\n\nmessage Order {\n  string id = 1; // it\'s\n}\n' }, 'stream_routes/twin': { server_port: 9102, upstream },
    'plugin_metadata/file-logger': { log_format: { host: '$host' } }, 'secrets/vault/twin': { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'copied-token' },
  }
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  symlinkSync(program, join(folder, 'tollhouse'))
  const env = { ...process.env, ADMIN_KEY: ADMIN, PATH: `${folder}:${process.env.PATH}` }
  const stored = async (path: string) => {
    const { create_time: _, update_time: __, ...rest } = (await (await gateway.call('GET', `/apisix/admin/${path}`)).json()).value
    return rest
  }
  await signIn(page, gateway)
  for (const [path, value] of Object.entries(objects)) {
    const [kind, ...rest] = path.split('/') as [string, ...string[]]
    expect((await gateway.call('PUT', `/apisix/admin/${kind === 'consumers' ? kind : path}`, value)).status, path).toBeLessThan(300)
    const before = await stored(path)
    await page.goto(`${gateway.admin}/ui/objects/${kind}/${encodeURIComponent(rest.join('/'))}`)
    // The CLI opens no sealed secret, and is not offered where there is one.
    const hasSecret = JSON.stringify(value).includes('copied-')
    for (const way of hasSecret ? ['curl'] : ['CLI', 'curl']) {
      await expect(page.getByRole('heading', { name: 'History' })).toBeVisible()
      await page.getByRole('button', { name: /Copy as|Copied/ }).click()
      await page.getByRole('menuitem', { name: way, exact: true }).click()
      await expect(page.getByRole('button', { name: 'Copied', exact: true })).toBeVisible()
      const command = await page.evaluate(() => navigator.clipboard.readText())
      await gateway.call('DELETE', `/apisix/admin/${path}`)
      const ran = await promisify(execFile)('sh', ['-c', command], { env, cwd: folder }).catch((error: { stderr: string; stdout: string }) => error)
      expect(await stored(path).catch(() => undefined), `${path} by ${way}: ${command}\n${ran.stdout}${ran.stderr}`).toEqual(before)
    }
    await gateway.call('DELETE', `/apisix/admin/${path}`)
  }
  rmSync(folder, { recursive: true })
})

test('who does not know what to ask or to measure is offered something', async ({ page }) => {
  // Of a gateway of its own: examples are made of the first routes that there are.
  await withFresh(process.env as Record<string, string>, async (gateway) => {
    await gateway.call('PUT', '/apisix/admin/routes/offered', { uri: '/offered/*', host: '*.offered.test', methods: ['POST'], upstream: { nodes: { '127.0.0.1:1': 1 } } })
    await signIn(page, gateway, ADMIN, '/ui/explain')
    await page.getByRole('link', { name: 'POST http://x.offered.test/offered/x' }).click()
    await expect(page.getByRole('heading', { name: 'Route offered matches' })).toBeVisible()
    await page.goto(`${gateway.admin}/ui/bench`)
    await page.getByRole('button', { name: 'Steady load' }).click()
    await expect(page.getByText(/tollhouse bench http .* -c 32 -d 30s --repeat 3 -r 1000/)).toBeVisible()
    await page.goto('about:blank')
  })
})
