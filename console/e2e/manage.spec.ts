/** Changes and what takes them back, plugins, settings. Imports and exports are tested in a file of their own. */
import { ADMIN, axe, expect, signIn, test, VIEWER, withFile } from './gateway'

test('a change made elsewhere is told with its author, and undone exactly', async ({ page, gateway }) => {
  const route = { uri: '/undo', priority: 7, plugins: { 'key-auth': {} }, upstream: { nodes: { [gateway.origin]: 1 } } }
  await gateway.call('PUT', '/apisix/admin/routes/undo', route)
  const before = await (await gateway.call('GET', '/apisix/admin/routes/undo')).json()
  await gateway.call('PATCH', '/apisix/admin/routes/undo', { priority: 9 })
  await signIn(page, gateway, ADMIN, '/ui/changes?kind=routes&id=undo')
  await expect(page.getByText('2 changes')).toBeVisible()
  const row = page.getByRole('row', { name: /priority 7 → 9/ })
  await expect(row).toContainText('admin')
  await expect(row).toContainText('API')
  await row.getByRole('link').first().click()
  await page.getByRole('button', { name: 'Undo' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click()
  await expect(page.getByText('undone', { exact: true })).toBeVisible()
  const after = await (await gateway.call('GET', '/apisix/admin/routes/undo')).json()
  expect(after.value).toEqual(before.value)
})

test('the toast after a save names its revision and takes it back', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/toast', { uri: '/toast', desc: 'before', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/toast/edit?view=json')
  const text = page.getByRole('textbox', { name: 'JSON' })
  await text.fill((await text.inputValue()).replace('"before"', '"slip"'))
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  const toast = page.locator('.saved')
  await expect(toast).toContainText(/Saved as revision \d+/)
  await toast.getByRole('button', { name: 'Undo' }).click()
  await expect(toast).toContainText(/Undone as revision \d+/)
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/toast')).json()
  expect(value.desc).toBe('before')
})

test('what others have changed since is shown before anything is taken back', async ({ page, gateway }) => {
  const put = (desc: string) => gateway.call('PUT', '/apisix/admin/routes/since', { uri: '/since', desc, upstream: { nodes: { [gateway.origin]: 1 } } })
  for (const desc of ['first', 'second', 'third']) await put(desc)
  await signIn(page, gateway, ADMIN, '/ui/changes?kind=routes&id=since')
  await page.getByRole('row', { name: /first → second/ }).getByRole('link').first().click()
  await page.getByRole('button', { name: 'Undo' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('button', { name: 'Undo' }).click()
  await expect(dialog.getByRole('alert')).toContainText('changed again since')
  await expect(dialog).toContainText('"third"')
  await dialog.getByRole('button', { name: 'Undo' }).click()
  await expect(dialog).toHaveCount(0)
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/since')).json()
  expect(value.desc).toBe('first')
})

test('deleting an upstream that is used lists its users with links', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/upstreams/used', { nodes: { [gateway.origin]: 1 } })
  await gateway.call('PUT', '/apisix/admin/routes/user', { uri: '/user', upstream_id: 'used' })
  await signIn(page, gateway, ADMIN, '/ui/objects/upstreams/used')
  await expect(page.getByRole('link', { name: 'route user' })).toBeVisible()
  await page.getByRole('button', { name: 'Delete' }).click()
  const dialog = page.getByRole('dialog')
  await expect(dialog.getByRole('link', { name: 'route user' })).toBeVisible()
  await expect(dialog.getByRole('alert')).toContainText('It cannot be deleted, because 1 object uses it')
  // What is impossible asks for nothing.
  await expect(dialog.getByRole('textbox')).toHaveCount(0)
  await expect(dialog.getByRole('button', { name: 'Delete' })).toHaveCount(0)
})

test('the request path shows plugins of all owners in their order, and its nodes', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/services/way', { plugins: { 'limit-count': { count: 5, time_window: 60 } }, upstream: { nodes: { [gateway.origin]: 3 } } })
  await gateway.call('PUT', '/apisix/admin/routes/way', { uri: '/way', service_id: 'way', plugins: { 'key-auth': {} } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/way')
  const way = page.getByRole('list', { name: 'Request path' })
  await expect(way.getByRole('listitem')).toHaveText([/\/way/, /route.*key-auth/, /service way.*limit-count/, /upstream/i, /Nodes.*1 of 1 node/])
})

test('an object copied as YAML makes the same object again', async ({ page, gateway, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await gateway.call('PUT', '/apisix/admin/routes/yaml', { uri: '/yaml', desc: 'yes: "no" #', labels: { on: 'off', n: '1' }, upstream: { nodes: { [gateway.origin]: 1 } }, priority: 0 })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/yaml')
  await page.getByRole('button', { name: /Copy as/ }).click()
  await page.getByRole('menuitem', { name: 'YAML file' }).click()
  await expect(page.getByText('Copied')).toBeVisible()
  const text = await page.evaluate(() => navigator.clipboard.readText())
  expect(text).toContain('routes:\n  -\n')
  expect(text).toContain('desc: "yes: \\"no\\" #"')
  expect(text).toContain('"on": "off"')
  expect(text.trimEnd().endsWith('#END')).toBe(true)
})

test('the catalogue opens every plugin with its manual and its fields', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/plugins?q=limit')
  await expect(page.getByRole('link', { name: 'limit-count', exact: true })).toBeVisible()
  await page.getByRole('link', { name: 'limit-count', exact: true }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'limit-count' })).toBeVisible()
  await expect(page.locator('.manual')).not.toBeEmpty()
  await expect(page.getByRole('cell', { name: 'time_window' })).toBeVisible()
  const { rows } = await (await gateway.call('GET', '/console/v1/plugins')).json()
  const without = []
  for (const { name } of rows) {
    const one = await (await gateway.call('GET', `/console/v1/plugins/${name}`)).json()
    if (!one.manual || !one.schema || !one.summary) without.push(name)
  }
  expect(without).toEqual([])
})

test('settings are told with what they mean, and no secret is among them', async ({ page, gateway }) => {
  await signIn(page, gateway, VIEWER, '/ui/settings')
  await expect(page.getByRole('cell', { name: /listen\.http/ }).first()).toBeVisible()
  await page.getByRole('textbox', { name: 'Filter by name or meaning' }).fill('viewer')
  await expect(page.getByRole('cell', { name: /admin\.viewer_key/ })).toBeVisible()
  expect(await page.content()).not.toContain(ADMIN)
  expect(await page.content()).not.toContain(VIEWER)
  // Where it listens is what the kernel chose, not what was asked for.
  await expect(page.getByText(gateway.plane.replace('http://', ''))).toBeVisible()
})

test('an instance is registered and changed by a form, and the timeline tells of it', async ({ page, gateway }) => {
  await gateway.call('POST', '/registry/v1/services', { namespace: 'default', name: 'forms' })
  await signIn(page, gateway, ADMIN, '/ui/registry/default/forms')
  await page.getByRole('button', { name: 'Register an instance' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Host').fill('10.9.0.1')
  await dialog.getByLabel('Port').fill('not a port')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await expect(dialog.getByRole('alert')).toBeVisible()
  await dialog.getByLabel('Port').fill('8080')
  await dialog.getByLabel('Metadata').fill('zone=a')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('cell', { name: '10.9.0.1:8080', exact: true })).toBeVisible()
  await page.getByRole('button', { name: 'Edit 10.9.0.1:8080' }).click()
  await dialog.getByLabel('Weight').fill('30')
  await dialog.getByRole('button', { name: 'Save' }).click()
  await expect(dialog).toHaveCount(0)
  const { list } = await (await gateway.call('GET', '/registry/v1/instances?service=forms')).json()
  expect(list[0]).toMatchObject({ weight: 30, metadata: { zone: 'a' } })
  await page.getByText('Events', { exact: true }).click()
  await expect(page.getByText('registered', { exact: true })).toBeVisible()
  await expect(page.getByText('weight', { exact: true })).toBeVisible()
})

test('an instance that misses its heartbeats stands on the timeline, and is in sight by default', async ({ page, gateway }) => {
  for (const port of [1, 2, 3]) await gateway.call('POST', '/registry/v1/instances', { service: 'silence', host: '10.8.0.1', port, healthy: true })
  const made = await (await gateway.call('POST', '/registry/v1/instances', { service: 'silence', host: '10.8.0.2', port: 9, ttl_seconds: 1 })).json()
  await signIn(page, gateway, ADMIN, '/ui/registry/default/silence')
  await expect(page.getByRole('row', { name: /10\.8\.0\.2:9/ })).toContainText('unhealthy', { timeout: 30_000 })
  await gateway.call('POST', `/registry/v1/instances/${made.id}/heartbeat`)
  await page.getByText('Events', { exact: true }).click()
  await expect(page.getByRole('row', { name: /missed its heartbeats/ }).first()).toContainText('10.8.0.2:9', { timeout: 30_000 })
  await expect(page.getByRole('row', { name: /heartbeats again/ }).first()).toContainText('10.8.0.2:9', { timeout: 30_000 })
})

test('a rule of the registry is written, switched off and listed', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/registry/rules?kind=routing')
  await page.getByRole('link', { name: 'New' }).click()
  await page.getByRole('button', { name: 'Review' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('link', { name: 'canary' })).toBeVisible()
  const turn = page.getByRole('switch', { name: 'on: canary' })
  await turn.click({ force: true })
  await expect(turn).not.toBeChecked()
  const { list } = await (await gateway.call('GET', '/registry/v1/rules/routing')).json()
  expect(list[0]).toMatchObject({ name: 'canary', enabled: false })
})

test('beside a file everything is readable, the file is named, and nothing saves', async ({ page, gateway }) => {
  await withFile({ routes: [{ id: 'from-file', uri: '/file', upstream: { nodes: { [gateway.origin]: 1 } } }] }, async (other) => {
    await signIn(page, other, ADMIN, '/ui/objects/routes')
    await expect(page.getByRole('link', { name: 'from-file' })).toBeVisible()
    await expect(page.getByRole('status').filter({ hasText: 'resources.json' })).toBeVisible()
    await page.getByRole('link', { name: 'from-file' }).click()
    await expect(page.getByRole('list', { name: 'Request path' })).toContainText('/file')
    const remove = page.getByRole('button', { name: 'Delete' })
    await expect(remove).toBeDisabled()
    await expect(remove).toHaveAttribute('title', /resources\.json/)
    expect((await other.call('PUT', '/apisix/admin/routes/x', { uri: '/x' })).status).toBe(405)
    // Nothing of the page asks a gateway that has gone.
    await page.goto('about:blank')
  })
})

test('a measurement outlives its tab, its result can be read again, and a target outside of the list is refused', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  await gateway.call('PUT', '/apisix/admin/routes/bench', { uri: '/bench', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/bench')
  await page.getByLabel('URL').fill('http://10.1.2.3/')
  await page.getByRole('button', { name: 'Start' }).click()
  await expect(page.getByRole('alert')).toContainText('console.bench_targets')
  const ids: string[] = []
  for (const name of ['first', 'second']) {
    await page.getByLabel('URL').fill(`${gateway.plane}/bench`)
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Connections').fill('2')
    await page.getByLabel('Seconds each').fill('1')
    await page.getByLabel('Repetitions').fill('1')
    await expect(page.getByText('Fewer than three repetitions')).toBeVisible()
    await page.getByRole('button', { name: 'Start' }).click()
    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible()
    ids.push(page.url().split('/').at(-1) as string)
    await page.goto('about:blank')
    await expect.poll(async () => (await (await gateway.call('GET', `/console/v1/bench/runs/${ids.at(-1)}`)).json()).end, { timeout: 60_000 }).toBe('done')
    await page.goto(`${gateway.admin}/ui/bench`)
    await expect(page.getByRole('link', { name, exact: true })).toBeVisible()
  }
  const result = await (await gateway.call('GET', `/console/v1/bench/runs/${ids[0]}/result`)).json()
  expect(result.results[0].counts.completed).toBeGreaterThan(0)
  const report = await (await gateway.call('GET', `/console/v1/bench/runs/${ids[0]}/page`)).text()
  expect(report).toContain('class="verdict"')
  for (const name of ['first', 'second']) await page.getByRole('checkbox', { name: new RegExp(`Compare: ${name}`) }).check()
  await page.getByRole('button', { name: 'Compare' }).click()
  await expect(page.getByText('Fewer than three repetitions show no variance')).toBeVisible()
  await expect(page.getByText('Different targets were measured')).toHaveCount(0)
  await expect(page.getByRole('row').nth(2)).toContainText(/[+−]?\d+(\.\d)? %/)
})

test('findings, the log and its level are shown, and a viewer is told why not', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/settings?tab=log')
  await expect(page.locator('pre')).toContainText('configuration in service')
  await page.getByLabel('Level of the log').selectOption('debug')
  await expect(page.getByText('back to info in 10 min')).toBeVisible()
  await page.getByText('Findings', { exact: true }).click()
  await expect(page.getByText('Nothing needs a look.').or(page.locator('.finding-help').first())).toBeVisible()
  await page.context().clearCookies()
  await signIn(page, gateway, VIEWER, '/ui/settings?tab=log')
  await expect(page.getByText('This takes a key of the role admin.')).toBeVisible()
})

const SCREENS = ['/ui/bench', '/ui/settings?tab=doctor', '/ui/settings?tab=log', '/ui/changes', '/ui/plugins', '/ui/plugins/limit-count', '/ui/certificates', '/ui/settings?all=true', '/ui/registry/rules', '/ui/registry/default/a11y', '/ui/registry/default/a11y?tab=events', '/ui/objects/upstreams/a11y-up']

for (const colorScheme of ['light', 'dark'] as const) {
  test(`axe finds nothing on the screens that manage, ${colorScheme}`, async ({ page, gateway }) => {
    test.setTimeout(240_000)
    await gateway.call('PUT', '/apisix/admin/upstreams/a11y-up', { nodes: { [gateway.origin]: 1 } })
    await gateway.call('POST', '/registry/v1/instances', { service: 'a11y', host: '10.0.0.9', port: 80, healthy: true })
    await page.emulateMedia({ colorScheme })
    await signIn(page, gateway)
    const script = axe()
    const found: string[] = []
    for (const path of SCREENS) {
      await page.goto(gateway.admin + path)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.waitForLoadState('networkidle', { timeout: 1500 }).catch(() => {})
      await page.evaluate(script)
      const violations = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: { run: (where: Document, options: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }
        const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']
        return (await axe.run(document, { runOnly: tags })).violations
      })
      for (const { id, nodes } of violations) found.push(`${path} ${id} ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)
    }
    expect(found).toEqual([])
  })
}
