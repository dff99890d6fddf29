/** Five tasks of people, done without a manual by what is visible on the page: each tells its clicks, its fields and its time. */
import { certificate } from './certificate'
import { ADMIN, expect, signIn, test, VIEWER, withOrigin, withSettings } from './gateway'
import { Person } from './person'

const settings = { admin: { key: ADMIN, viewer_key: VIEWER } }

test('task: a first route with a rate limit', async ({ page }) => {
  await withOrigin((_, end) => end('well'), async (origin) => {
    await withSettings(settings, async (gateway) => {
      const [host, port] = origin.split(':') as [string, string]
      await signIn(page, gateway)
      const person = new Person(page)
      await person.press(page.getByRole('link', { name: 'Routes', exact: true }))
      await person.press(page.getByRole('link', { name: 'New' }).first())
      await person.fill('Path', '/limited')
      await person.fill('Address 1', host)
      await person.fill('Port 1', port)
      await person.press(page.getByRole('button', { name: 'Add plugin' }))
      await person.fill('Search by name or purpose', 'limits the number of requests')
      await person.press(page.getByRole('dialog').getByRole('button', { name: /^limit-count / }))
      await person.fill('Requests allowed', '2')
      await person.press(page.getByRole('button', { name: 'Review' }))
      await person.press(page.getByRole('button', { name: 'Save' }))
      await expect(page.locator('.saved')).toContainText('Saved as revision')
      person.ends('first route with a rate limit', 6)
      await expect.poll(async () => (await fetch(`${gateway.plane}/limited`)).status).toBe(200)
      const statuses: number[] = []
      for (let count = 0; count < 2; count += 1) statuses.push((await fetch(`${gateway.plane}/limited`)).status)
      expect(statuses).toEqual([200, 429])
      await page.goto('about:blank')
    })
  })
})

test('task: a certificate by paste', async ({ page, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const { cert, key } = certificate('pasted.example.com')
  await withSettings(settings, async (gateway) => {
    await signIn(page, gateway)
    const person = new Person(page)
    await person.press(page.getByRole('link', { name: 'Certificates', exact: true }))
    await person.press(page.getByRole('link', { name: 'New' }).first())
    await person.paste('Certificate chain', cert)
    await person.paste('Private key', key)
    await person.fill('Host names 1', 'pasted.example.com')
    await person.press(page.getByRole('button', { name: 'Review' }))
    await person.press(page.getByRole('button', { name: 'Save' }))
    await expect(page.locator('.saved')).toContainText('Saved as revision')
    person.ends('certificate by paste', 6)
    const { rows } = await (await gateway.call('GET', '/console/v1/objects/ssls?q=pasted.example.com')).json()
    const { value } = await (await gateway.call('GET', `/apisix/admin/ssls/${rows[0].id}`)).json()
    expect(value).toMatchObject({ cert, snis: ['pasted.example.com'] })
    await page.goto('about:blank')
  })
})

test('task: the change that broke a route is found and undone', async ({ page }) => {
  test.setTimeout(240_000)
  await withOrigin((_, end) => end('well'), async (origin) => {
    await withSettings(settings, async (gateway) => {
      const status = async () => (await fetch(`${gateway.plane}/billing`)).status
      await gateway.call('PUT', '/apisix/admin/upstreams/billing', { nodes: { [origin]: 1 } })
      await gateway.call('PUT', '/apisix/admin/routes/billing', { name: 'Billing', uri: '/billing', upstream_id: 'billing' })
      // Changes of other objects, among which the one is to be found.
      for (const id of ['a', 'b', 'c', 'd']) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { uri: `/${id}`, upstream_id: 'billing' })
      await expect.poll(status).toBe(200)
      await gateway.call('PUT', '/apisix/admin/upstreams/billing', { nodes: { '127.0.0.1:1': 1 } })
      await expect.poll(status).toBe(502)
      for (let count = 0; count < 20; count += 1) await status()
      await signIn(page, gateway)
      const person = new Person(page)
      const wrong = page.getByRole('region', { name: 'Needs attention' })
      await expect(wrong.getByText(/last change: upstreams\/billing replaced by admin/).first()).toBeVisible()
      await expect(page.getByRole('banner').getByText(/problem/)).toBeVisible()
      await person.press(page.getByRole('button', { name: 'Undo the change of upstreams/billing' }).first())
      const dialog = page.getByRole('dialog')
      await expect(dialog).toContainText('This restores the previous version exactly.')
      await expect(dialog.locator('.diff .new')).toContainText([origin])
      await person.press(dialog.getByRole('button', { name: 'Undo' }))
      await expect(dialog).toHaveCount(0)
      person.ends('find and undo what broke a route', 2)
      await expect.poll(status).toBe(200)
      await page.goto('about:blank')
    })
  })
})

test('task: a route with a plugin and one without are measured and compared', async ({ page, gateway }) => {
  test.setTimeout(300_000)
  const upstream = { nodes: { [gateway.origin]: 1 } }
  await gateway.call('PUT', '/apisix/admin/routes/plain', { uri: '/plain', upstream })
  await gateway.call('PUT', '/apisix/admin/routes/counted', { uri: '/counted', upstream, plugins: { 'limit-count': { count: 1_000_000, time_window: 60, key: 'remote_addr' } } })
  await signIn(page, gateway, ADMIN)
  const person = new Person(page)
  await person.press(page.getByRole('link', { name: 'Load generator', exact: true }).first())
  for (const [name, path, threshold] of [['without', 'plain', 'failure_rate < 1%'], ['with', 'counted', 'p99 < 1ns']] as const) {
    await person.fill('URL', `${gateway.plane}/${path}`)
    await person.fill('Name', name)
    await person.fill('Connections', '2')
    await person.fill('Seconds each', '1')
    await person.fill('Repetitions', '1')
    await person.fill('Thresholds', threshold)
    await person.press(page.getByRole('button', { name: 'Start' }))
    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible()
    await expect(page.getByText('done', { exact: true })).toBeVisible({ timeout: 60_000 })
    await person.press(page.getByRole('main').getByRole('link', { name: 'Load generator', exact: true }))
  }
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
  for (const name of ['without', 'with']) {
    await expect(row(name)).toContainText(/\d\/s.*ms/)
    await person.press(row(name).getByRole('checkbox'))
  }
  await expect(row('without')).toContainText('1 of 1 met')
  await expect(row('with')).toContainText('0 of 1 met')
  await person.press(page.getByRole('button', { name: 'Compare' }))
  await expect(page.getByText('Different targets were measured')).toBeVisible()
  await expect(page.getByText('Fewer than three repetitions show no variance')).toBeVisible()
  await expect(row('with')).toContainText(/[+−]\d+(\.\d)? %/)
  await expect(page.getByRole('img', { name: /Time within which a share/ })).toBeVisible()
  await expect(page.getByRole('img', { name: /Requests a second over the course/ })).toBeVisible()
  person.ends('compare two benches', 8)
  // The text of the load generator says the same.
  await page.getByText('Comparison as text').click()
  await expect(page.locator('pre')).toContainText('Different things were measured')
  // Once more, with the same plan, by one button.
  await page.goBack()
  await row('without').getByRole('button', { name: /Repeat/ }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'without' })).toBeVisible()
  await expect(page.getByText('failure_rate < 1%').first()).toBeVisible({ timeout: 60_000 })
})

test('task: an instance is isolated', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const port of [1, 2, 3]) await gateway.call('POST', '/registry/v1/instances', { service: 'orders', host: '10.7.0.1', port, healthy: true, ttl_seconds: 60 })
    await signIn(page, gateway)
    const person = new Person(page)
    const row = page.getByRole('row', { name: /10\.7\.0\.1:2/ })
    await person.press(page.getByRole('navigation').getByRole('link', { name: 'Registered services' }))
    await person.press(page.getByRole('link', { name: 'orders', exact: true }))
    await person.press(row.getByRole('button', { name: 'Isolate' }))
    await person.press(page.getByRole('dialog').getByRole('button', { name: 'Isolate' }))
    await expect(row).toContainText('isolated')
    person.ends('isolate an instance', 4)
    await page.goto('about:blank')
  })
})

test('a service is made and an instance of it registered and isolated', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    await signIn(page, gateway)
    const person = new Person(page)
    const dialog = page.getByRole('dialog')
    await person.press(page.getByRole('navigation').getByRole('link', { name: 'Registered services' }))
    await person.press(page.getByRole('button', { name: 'New service' }))
    await dialog.getByLabel('Name', { exact: false }).last().fill('orders')
    await person.press(dialog.getByRole('button', { name: 'Create' }))
    await person.press(page.getByRole('button', { name: 'Register an instance' }).first())
    await dialog.getByLabel('Host').fill('10.7.0.1')
    await dialog.getByLabel('Port').fill('1')
    await person.press(dialog.getByRole('button', { name: 'Save' }))
    await person.press(page.getByRole('row', { name: /10\.7\.0\.1:1/ }).getByRole('button', { name: 'Isolate' }))
    await dialog.getByRole('textbox').fill('orders')
    await person.press(dialog.getByRole('button', { name: 'Isolate' }))
    await expect(page.getByRole('row', { name: /10\.7\.0\.1:1/ })).toContainText('isolated')
    person.ends('make a service, register and isolate an instance', 7)
    await page.goto('about:blank')
  })
})
