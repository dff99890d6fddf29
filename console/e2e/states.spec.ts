/** The states that every screen has: empty, refused, unreachable, read only, gone, upgraded. */
import { ADMIN, expect, signIn, test, withFresh } from './gateway'

test('filters are in the address, another browser shows the same, and back undoes the last', async ({ page, browser, gateway }) => {
  for (const name of ['first', 'second']) await gateway.call('PUT', `/apisix/admin/routes/url-${name}`, { uri: `/url/${name}`, name: `Url ${name}`, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes?q=url-first')
  await expect(page.getByRole('row')).toHaveCount(2)
  const other = await (await browser.newContext()).newPage()
  await signIn(other, gateway, ADMIN, new URL(page.url()).pathname + new URL(page.url()).search)
  await expect(other.getByRole('row')).toHaveCount(2)
  await expect(other.getByRole('link', { name: 'Url first' })).toBeVisible()
  await other.context().close()
  await page.getByRole('link', { name: 'Url first' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Url first' })).toBeVisible()
  await page.goBack()
  await expect(page.locator('[data-filter]')).toHaveValue('url-first')
  await expect(page.getByRole('row')).toHaveCount(2)
})

test('the overview opens with its past, and load moves it', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/load', { uri: '/load', upstream: { nodes: { [gateway.origin]: 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/load`)).status).toBe(200)
  await expect.poll(async () => ((await (await gateway.call('GET', '/console/v1/live')).json()).seconds as { requests: number }[]).some((second) => second.requests > 0)).toBe(true)
  await signIn(page, gateway)
  // What was before the page was opened is in its charts at once.
  await expect(page.getByText('No request in the last 15 minutes.')).toHaveCount(0)
  const sentence = page.getByText(/^Now .*\/s/).first()
  await expect(sentence).toBeVisible()
  const before = await sentence.textContent()
  for (let count = 0; count < 400; count += 1) await fetch(`${gateway.plane}/load`)
  await expect(sentence).not.toHaveText(before as string)
})

test('explain and the data plane agree for fifty requests', async ({ gateway }) => {
  const upstream = { nodes: { [gateway.origin]: 1 } }
  const mark = (id: string) => ({ 'response-rewrite': { headers: { set: { 'x-route': id } } } })
  const routes: Record<string, object> = {
    'fifty-exact': { uri: '/fifty/exact' }, 'fifty-any': { uri: '/fifty/*' }, 'fifty-post': { uri: '/fifty/*', methods: ['POST'], priority: 5 },
    'fifty-host': { uri: '/fifty/*', host: '*.fifty.test', priority: 3 }, 'fifty-vars': { uri: '/fifty/v*', vars: [['arg_n', '>', '3']], priority: 9 },
  }
  for (const [id, route] of Object.entries(routes)) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { ...route, plugins: mark(id), upstream })
  await expect.poll(async () => (await fetch(`${gateway.plane}/fifty/vx?n=4`)).headers.get('x-route')).toBe('fifty-vars')
  let seen = 0
  for (const method of ['GET', 'POST']) {
    for (const host of ['', 'a.fifty.test']) {
      for (const path of ['/fifty/exact', '/fifty/other', '/fifty/v1?n=1', '/fifty/v1?n=4', '/fifty/v1?n=x', '/fifty', '/fifty/', '/fiftyy', '/fifty/a/b', '/fifty/v/x?n=9', '/nowhere', '/fifty/exact/', '/Fifty/exact']) {
        const answer = await fetch(`${gateway.admin}/console/v1/explain`, { method: 'POST', headers: { 'X-API-KEY': ADMIN }, body: JSON.stringify({ url: gateway.plane + path, method, headers: host ? [`Host: ${host}`] : [] }) })
        const explained = await answer.json()
        const { request } = await import('node:http')
        const real = await new Promise<string | undefined>((resolve, reject) => {
          const sent = request(gateway.plane + path, { method, headers: host ? { Host: host } : {} }, (got) => {
            got.resume()
            resolve(got.headers['x-route'] as string | undefined)
          })
          sent.once('error', reject)
          sent.end()
        })
        expect(explained.route?.id, `${method} ${host} ${path}`).toBe(real)
        seen += 1
      }
    }
  }
  expect(seen).toBeGreaterThan(50)
})

test('a gateway that goes away is told, what was typed stays, and the page recovers', async ({ page }) => {
  test.setTimeout(240_000)
  await withFresh(process.env as Record<string, string>, async (gateway) => {
    await gateway.call('PUT', '/apisix/admin/routes/typed', { uri: '/typed', upstream: { nodes: { '127.0.0.1:1': 1 } } })
    await signIn(page, gateway, ADMIN, '/ui/objects/routes/typed/edit?view=json')
    const editor = page.getByRole('textbox', { name: 'JSON' })
    const text = (await editor.inputValue()).replace('"/typed"', '"/changed"')
    await editor.fill(text)
    // As if nobody answered: the connection is refused, whatever is asked.
    await page.route(/\/(console|apisix)\//, (route) => route.abort('connectionrefused'))
    await expect(page.getByRole('status').filter({ hasText: /does not answer \(since \d/ })).toBeVisible()
    expect(await editor.inputValue()).toBe(text)
    // Writes wait, and say why.
    await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
    await expect(page.getByRole('button', { name: 'Review' })).toHaveAttribute('title', /does not answer/)
    await page.unroute(/\/(console|apisix)\//)
    await expect(page.getByRole('status').filter({ hasText: 'does not answer' })).toHaveCount(0)
    await expect(page.getByRole('button', { name: 'Review' })).toBeEnabled()
    expect(await editor.inputValue()).toBe(text)
    page.on('dialog', (dialog) => void dialog.accept())
    await page.goto('about:blank')
  })
})

test('seven tabs of one browser all work', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  await signIn(page, gateway)
  const tabs = [page]
  for (const path of ['/ui/', '/ui/requests', '/ui/nodes', '/ui/', '/ui/objects/routes', '/ui/changes']) {
    const tab = await page.context().newPage()
    await tab.goto(gateway.admin + path)
    await tab.getByRole('heading', { level: 1 }).waitFor()
    tabs.push(tab)
  }
  for (const tab of tabs) {
    await tab.bringToFront()
    await tab.goto(`${gateway.admin}/ui/objects/upstreams`)
    await expect(tab.getByRole('heading', { level: 1, name: 'Upstreams' })).toBeVisible()
  }
})
