/** The frame and what all screens have of it: navigation, density, cards on a phone, pages, charts, the first steps. */
import { ADMIN, expect, signIn, test, VIEWER, withSettings } from './gateway'

test('the first steps end with a request that the gateway has answered, seen on the page', async ({ page }) => {
  await withSettings({ admin: { key: ADMIN, viewer_key: VIEWER } }, async (gateway) => {
    await signIn(page, gateway)
    const guide = page.getByRole('region', { name: 'First steps' })
    await expect(guide.getByText('Create the route first.')).toBeVisible()
    await guide.getByRole('button', { name: 'Create route' }).click()
    await expect(guide.getByText('Waiting for the first request')).toBeVisible()
    // What the page says to run is what is run.
    const command = await guide.getByText(/^curl .*\/hello'?$/).textContent()
    const url = /http:[^'\s]+/.exec(command ?? '')?.[0] as string
    await expect.poll(async () => (await fetch(url)).text()).toBe('Hello from Tollhouse\n')
    await expect(guide.getByText('It works: the gateway answered')).toBeVisible()
    await expect(guide.getByRole('link', { name: 'GET /hello' })).toBeVisible()
    // The service and the measurement come from the same page.
    await expect(guide.getByText(/registry\/v1\/instances/)).toBeVisible()
    await expect(guide.getByText(/tollhouse bench http/)).toBeVisible()
    await guide.getByRole('button', { name: 'Hide' }).click()
    await expect(guide).toHaveCount(0)
    await page.goto('about:blank')
  })
})

test('nothing is green while requests fail', async ({ page }) => {
  await withSettings({ admin: { key: ADMIN, viewer_key: VIEWER } }, async (gateway) => {
    await gateway.call('PUT', '/apisix/admin/routes/broken', { name: 'Broken', uri: '/broken', upstream: { nodes: { '127.0.0.1:1': 1 } } })
    await signIn(page, gateway)
    await expect(page.getByRole('banner').getByText('No problems')).toBeVisible()
    await expect.poll(async () => (await fetch(`${gateway.plane}/broken`)).status).toBe(502)
    for (let count = 0; count < 30; count += 1) await fetch(`${gateway.plane}/broken`)
    await expect(page.getByRole('banner').getByText(/problem/).filter({ hasNotText: 'No' })).toBeVisible()
    await expect(page.getByText('No problems')).toHaveCount(0)
    // The picture shows where: the route by its name, its node, and the way to the requests.
    const map = page.getByRole('region', { name: 'Live traffic' })
    await expect(map.getByRole('link', { name: 'Broken' })).toBeVisible()
    await map.getByRole('link', { name: /% fail/ }).first().click()
    await expect(page).toHaveURL(/status=5xx/)
    await page.goto('about:blank')
  })
})

test('the navigation fits 900 pixels, folded and whole, and shrinks to icons', async ({ page, gateway }) => {
  await page.setViewportSize({ width: 1440, height: 900 })
  await signIn(page, gateway)
  const navigation = page.getByRole('navigation')
  const hidden = () => navigation.locator('.nav-body').evaluate((it) => it.scrollHeight - it.clientHeight)
  await expect(navigation.getByRole('link', { name: 'Settings' })).toBeInViewport()
  expect(await hidden()).toBe(0)
  await navigation.getByRole('button', { name: 'More objects' }).click()
  await expect(navigation.getByRole('link', { name: 'Secrets' })).toBeInViewport()
  expect(await hidden()).toBe(0)
  await navigation.getByRole('button', { name: 'Registry' }).click()
  await expect(navigation.getByRole('link', { name: 'Registered services' })).toHaveCount(0)
  await navigation.getByRole('button', { name: 'Collapse' }).click()
  await expect(navigation).toHaveCSS('width', '60px')
  await page.reload()
  await navigation.getByRole('link', { name: 'Changes' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Changes' })).toBeVisible()
  await navigation.getByRole('button', { name: 'Expand the navigation' }).click()
  await expect(navigation.getByText('Settings')).toBeVisible()
})

test('on a phone a request is a card with its cause, route and node, and lists have pages', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/card', { name: 'Card', uri: '/card', upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/card`)).status).toBe(502)
  for (let count = 0; count < 60; count += 1) await fetch(`${gateway.plane}/card`)
  await page.setViewportSize({ width: 390, height: 844 })
  await signIn(page, gateway, ADMIN, '/ui/requests?route=card')
  const card = page.getByRole('row', { name: /\/card/ }).first()
  for (const text of ['upstream_connect_failed', 'Card', '127.0.0.1:1']) await expect(card.getByText(text, { exact: true })).toBeVisible()
  await expect(page.getByRole('row', { name: /\/card/ })).toHaveCount(50)
  await page.getByRole('button', { name: 'Next' }).click()
  await expect(page).toHaveURL(/page=2/)
  await expect(page.getByText(/^51–/)).toBeVisible()
  expect(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)).toBe(0)
})

test('a chart tells its values to who points at it, and rare failures beside many requests on a scale of powers', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/hovered', { uri: '/hovered', upstream: { nodes: { [gateway.origin]: 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/hovered`)).status).toBe(200)
  await signIn(page, gateway)
  const area = page.locator('.chart-area').first()
  await area.hover({ position: { x: 5, y: 20 } })
  await expect(area.locator('.chart-tip')).toContainText(/5xx/)
  await page.getByRole('button', { name: 'Log scale' }).click()
  await expect(page).toHaveURL(/log=true/)
  // And those of one route, with its node.
  for (let count = 0; count < 5; count += 1) await fetch(`${gateway.plane}/hovered`)
  await page.goto(`${gateway.admin}/ui/objects/routes/hovered`)
  const live = page.getByRole('region', { name: 'Last 15 minutes' })
  await expect(live.getByRole('img')).toHaveCount(4, { timeout: 30_000 })
  await expect(live.getByRole('cell', { name: gateway.origin })).toBeVisible()
})

test('a plugin of a route shows what it refuses, with the way to the refused requests', async ({ page, gateway }) => {
  const counted = { 'limit-count': { count: 1, time_window: 600, rejected_code: 429, key: 'remote_addr' } }
  await gateway.call('PUT', '/apisix/admin/routes/refusing', { uri: '/refusing', plugins: counted, upstream: { nodes: { [gateway.origin]: 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/refusing`)).status).toBe(429)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/refusing')
  const box = page.getByRole('list', { name: 'Request path' }).getByRole('listitem').filter({ hasText: 'limit-count' })
  await box.getByRole('link', { name: /refused/ }).click()
  await expect(page).toHaveURL(/route=refusing/)
  await expect(page.getByText('limit_exceeded (limit-count)').first()).toBeVisible()
})

test('density is chosen once and kept, and a row opens wherever it is pressed', async ({ page, gateway }) => {
  for (const id of ['dense-a', 'dense-b']) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { uri: `/${id}`, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes?q=dense')
  const row = page.getByRole('row', { name: /dense-a/ })
  const before = (await row.boundingBox())?.height ?? 0
  await page.getByRole('button', { name: 'admin (admin)' }).click()
  await page.getByRole('menuitemradio', { name: 'Compact' }).click()
  await page.reload()
  await expect.poll(async () => (await row.boundingBox())?.height ?? before).toBeLessThan(before)
  // A row opens wherever it is pressed.
  await row.getByRole('cell', { name: '/dense-a' }).click({ position: { x: 2, y: 2 } })
  await expect(page).toHaveURL(/objects\/routes\/dense-a/)
})
