/** The states that every screen has: empty, refused, unreachable, read only, gone, upgraded. */
import { ADMIN, axe, expect, signIn, test, withFresh } from './gateway'

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
    await expect(page.getByRole('status').filter({ hasText: /does not answer, since \d/ })).toBeVisible()
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

const SCREENS = ['/ui/', '/ui/objects/routes', '/ui/new/routes', '/ui/changes', '/ui/requests', '/ui/settings', '/ui/plugins', '/ui/registry', '/ui/shenyu/plugin', '/ui/shenyu/selector', '/ui/shenyu/appAuth/+', '/ui/shenyu/rule/+?in=SELECTOR', '/ui/shenyu/selector/SELECTOR', '/ui/objects/secrets', '/ui/objects/secrets/vault%2Fa11y', '/ui/objects/secrets/vault%2Fa11y/edit', '/ui/new/secrets?of=gcp', '/ui/new/plugin_metadata', '/ui/objects/plugin_metadata/http-logger/edit', '/ui/objects/protos/a11y', '/ui/objects/consumer_groups', '/ui/objects/routes/a11y-gone']

for (const [what, language, colorScheme, width] of [['in Chinese', 'zh', 'light', 1280], ['of ShenYu, dark', 'en', 'dark', 1280], ['at 320 px', 'en', 'light', 320]] as const) {
  test(`axe finds nothing ${what}, and nothing is cut off`, async ({ page, gateway }) => {
    test.setTimeout(300_000)
    const selector = (await (await gateway.call('POST', '/console/v1/shenyu/selector', { name: 'a11y', pluginId: '5', handle: JSON.stringify([{ upstreamUrl: gateway.origin }]), selectorConditions: [{ paramType: 'uri', operator: '=', paramName: '/', paramValue: '/a11y' }] })).json()).data as string
    await gateway.call('PUT', '/apisix/admin/secrets/vault/a11y', { uri: 'http://127.0.0.1:8200', prefix: 'kv', token: 'hush' })
    await gateway.call('PUT', '/apisix/admin/plugin_metadata/http-logger', { log_format: { host: '$host', client: { address: '$remote_addr' } } })
    await gateway.call('PUT', '/apisix/admin/protos/a11y', { content: 'syntax = "proto3";\nmessage Order { string id = 1; }\n' })
    await gateway.call('PUT', '/apisix/admin/routes/a11y-gone', { uri: '/a11y-gone', upstream: { nodes: { [gateway.origin]: 1 } } })
    await gateway.call('DELETE', '/apisix/admin/routes/a11y-gone')
    await page.addInitScript((one) => localStorage.setItem('tollhouse-language', one), language)
    await page.emulateMedia({ colorScheme })
    await page.setViewportSize({ width, height: 900 })
    await page.goto(`${gateway.admin}/ui/`)
    await page.locator('input[name=key]').fill(ADMIN)
    await page.keyboard.press('Enter')
    await expect(page.locator('input[name=key]')).toHaveCount(0)
    const script = axe()
    const found: string[] = []
    for (const template of SCREENS) {
      const path = template.replace('?in=SELECTOR', `?in=${encodeURIComponent(JSON.stringify(selector))}`).replace('SELECTOR', selector)
      await page.goto(gateway.admin + path)
      await page.getByRole('heading', { level: 1 }).waitFor()
      await page.waitForLoadState('networkidle', { timeout: 1500 }).catch(() => {})
      // The page itself never scrolls sideways; wide tables do within their frame.
      const overflow = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
      if (overflow > 0) found.push(`${path} is ${overflow} px too wide`)
      await page.evaluate(script)
      const violations = await page.evaluate(async () => {
        const { axe } = globalThis as unknown as { axe: { run: (where: Document, options: object) => Promise<{ violations: { id: string; nodes: { html: string; failureSummary: string }[] }[] }> } }
        const tags = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']
        return (await axe.run(document, { runOnly: tags })).violations
      })
      for (const { id, nodes } of violations) found.push(`${path} ${id} ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)
    }
    page.on('dialog', (dialog) => void dialog.accept())
    expect(found).toEqual([])
  })
}
