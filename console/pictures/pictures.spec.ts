/** Takes the pictures of the documentation. Nothing is tested here. */
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from '@playwright/test'
import { ADMIN, expect, type Own, signIn, test, VIEWER, withFile, withOrigin, withSettings } from '../e2e/gateway'
import { openShop, PEOPLE, visit } from './shop'

const DOCS = join(import.meta.dirname, '../../docs/start/pictures')

/** A folder for pictures of every screen in every shape, to be looked at; nothing of it is kept. */
const SCREENS = process.env.TOLLHOUSE_SCREENS

/** How a screen is looked at: wide, at night, on a phone. */
const SHAPES = [['light', 1280, 860], ['dark', 1280, 860], ['light', 390, 844]] as const

const keys = Object.entries(PEOPLE).map(([name, key]) => ({ name, key, role: 'admin' }))

/** Customers of the shop for so long, in seconds: mostly content, some of them with a card that nobody takes. */
async function sell(plane: string, seconds: number) {
  const paths = ['/orders/7', '/orders/12', '/stock/shoes', '/orders/7', '/stock/hats', '/pay', '/orders/31', '/nowhere', '/legacy/find']
  for (let second = 0; second < seconds; second += 1) {
    const count = 25 + Math.round(12 * Math.sin(second / 4)) + (second % 5)
    await Promise.all(Array.from({ length: count }, (_, at) => new Promise((resolve) => setTimeout(resolve, (1000 / count) * at)).then(() => visit(plane, at % 17 === 0 ? '/pay' : (paths[(at + second) % paths.length] as string)))))
    await visit(plane, '/partners/feed', 'api.example.com', { apikey: 'partner-key' })
    await visit(plane, '/partners/feed', 'api.example.com')
  }
}

/** Waits until a screen has what it asks for. */
async function settle(page: Page) {
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.waitForTimeout(300)
  await expect(page.getByRole('status', { name: 'Loading' })).toHaveCount(0)
  await page.waitForLoadState('networkidle', { timeout: 1200 }).catch(() => {})
}

/** Measures a path of the shop for the pictures of the load generator. */
async function measure(gateway: Own, name: string) {
  const plan = { url: `${gateway.plane}/health/${name}`, name, connections: 2, seconds: 2, repeat: 3, thresholds: ['p99 < 100ms'] }
  const { id } = await (await gateway.call('POST', '/console/v1/bench/runs', plan)).json()
  await expect.poll(async () => (await (await gateway.call('GET', `/console/v1/bench/runs/${id}`)).json()).end, { timeout: 60_000 }).toBeTruthy()
}

/** Other words for what stands on a screen, in its texts and fields. */
const renamed = (page: Page, words: [string, string][]) =>
  page.evaluate((pairs) => {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      let text = (node.nodeValue ?? '').replace(/\S+ · the store in \S+/, 'gateway-1 · the store in /var/lib/tollhouse')
      // The longer one first: a port may begin like another.
      for (const [from, to] of pairs) text = text.replace(new RegExp(`${from.replaceAll('.', '\\.')}(?!\\d)`, 'g'), to)
      if (text !== node.nodeValue) node.nodeValue = text
    }
  }, words)

test('the tour', async ({ page, violations }) => {
  await withOrigin((count, end) => setTimeout(() => end('{"order": 7}'), 4 + (count % 23) * (count % 40 === 0 ? 20 : 1)), async (good) => {
    await withSettings({ admin: { key: ADMIN, viewer_key: VIEWER, keys }, console: { bench: true } }, async (gateway) => {
      const { selector, rule } = await openShop(gateway, good)
      await sell(gateway.plane, 75)
      const selling = sell(gateway.plane, SCREENS ? 240 : 45)
      await signIn(page, gateway)
      const shot = async (folder: string, name: string, path: string, doing?: (page: Page) => Promise<void>) => {
        await page.goto(gateway.admin + path)
        await settle(page)
        await doing?.(page)
        // What the kernel picked, and where this machine keeps it, is nobody's business.
        if (folder === DOCS) await renamed(page, [[gateway.plane.slice(7), '127.0.0.1:9080'], [good, '10.0.0.7:8080'], ['127.0.0.1:1', '10.0.0.8:8080']])
        await page.screenshot({ path: join(folder, `${name}.png`) })
      }
      await page.setViewportSize({ width: 1280, height: 860 })
      await shot(DOCS, 'console-overview', '/ui/')
      await shot(DOCS, 'console-requests', '/ui/requests')
      await shot(DOCS, 'console-explain', `/ui/explain?url=${encodeURIComponent('http://shop.example.com/orders/7')}`)
      await shot(DOCS, 'console-route', '/ui/objects/routes/orders-v1', async (it) => {
        await it.getByRole('list', { name: 'Request path' }).getByText('2 nodes', { exact: true }).waitFor()
        await it.getByRole('list', { name: 'Request path' }).getByText('prometheus').waitFor()
        await it.getByText('Not used by any object.').waitFor()
      })
      await shot(DOCS, 'console-form', '/ui/objects/services/shop/edit', (it) => it.getByLabel('Per', { exact: true }).waitFor())
      await shot(DOCS, 'console-changes', '/ui/changes')
      await shot(DOCS, 'console-credential', '/ui/objects/consumers/partner', async () => {
        await page.getByRole('button', { name: 'Add a credential' }).click()
        await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click()
        await page.getByRole('dialog').locator('[data-try]').waitFor()
      })
      if (SCREENS) {
        mkdirSync(SCREENS, { recursive: true })
        for (const name of ['stock', 'orders']) await measure(gateway, name)
        const screens: Record<string, [string, ((page: Page) => Promise<void>)?]> = {
          overview: ['/ui/'], requests: ['/ui/requests'], 'requests-detail': ['/ui/requests?status=5xx', (it) => it.getByRole('button', { name: /GET/ }).first().click()],
          explain: [`/ui/explain?url=${encodeURIComponent('http://shop.example.com/orders/7')}`], 'explain-none': [`/ui/explain?url=${encodeURIComponent('http://shop.example.com/nowhere')}`], 'explain-empty': ['/ui/explain'],
          nodes: ['/ui/nodes'], routes: ['/ui/objects/routes'], 'routes-nomatch': ['/ui/objects/routes?q=zzz'], route: ['/ui/objects/routes/orders-v1'], 'route-edit': ['/ui/objects/routes/orders-v1/edit'],
          'route-form': ['/ui/objects/services/shop/edit?view=form'], 'route-new': ['/ui/new/routes'], services: ['/ui/objects/services'], upstreams: ['/ui/objects/upstreams'], upstream: ['/ui/objects/upstreams/orders'],
          consumers: ['/ui/objects/consumers'], consumer: ['/ui/objects/consumers/partner'], 'global-rules': ['/ui/objects/global_rules'], 'stream-routes': ['/ui/objects/stream_routes'], gone: ['/ui/objects/routes/gone'], 'not-found': ['/ui/nothing'],
          certificates: ['/ui/certificates'], plugins: ['/ui/plugins'], plugin: ['/ui/plugins/limit-count'],
          'shenyu-plugins': ['/ui/shenyu/plugin'], 'shenyu-selectors': ['/ui/shenyu/selector'], 'shenyu-selector': [`/ui/shenyu/selector/${selector}`], 'shenyu-rule': [`/ui/shenyu/rule/${rule}`], 'shenyu-apps': ['/ui/shenyu/appAuth'], 'shenyu-empty': ['/ui/shenyu/meta-data'],
          registry: ['/ui/registry'], 'registry-service': ['/ui/registry/default/orders'], 'registry-events': ['/ui/registry/default/orders?tab=events'], rules: ['/ui/registry/rules'], 'rule-new': ['/ui/registry/rules/routing/+'],
          'stream-route-new': ['/ui/new/stream_routes'], 'certificate-new': ['/ui/new/ssls'], 'upstream-edit': ['/ui/objects/upstreams/orders/edit'], 'consumer-new': ['/ui/new/consumers'], 'namespaces': ['/ui/registry?tab=namespaces'], aliases: ['/ui/registry/default/orders?tab=aliases'],
          files: ['/ui/config'], file: ['/ui/config/default/shop?file=orders.yaml'], 'file-releases': ['/ui/config/default/shop?file=orders.yaml&tab=releases'], users: ['/ui/access'], policies: ['/ui/access?tab=policies'], rehearsal: ['/ui/access?tab=rehearsal'],
          bench: ['/ui/bench'], 'bench-run': ['/ui/bench', (it) => it.getByRole('link', { name: 'stock', exact: true }).click().then(() => settle(it))], 'bench-compare': ['/ui/bench', async (it) => { for (const box of (await it.getByRole('checkbox').all()).slice(0, 2)) await box.check(); await it.getByRole('button', { name: 'Compare' }).click(); await settle(it) }], import: ['/ui/changes/import'], changes: ['/ui/changes'], change: ['/ui/changes', (it) => it.getByRole('row').nth(1).getByRole('link').first().click().then(() => settle(it))],
          settings: ['/ui/settings'], doctor: ['/ui/settings?tab=doctor'], log: ['/ui/settings?tab=log'],
          palette: ['/ui/', async (it) => { await it.keyboard.press('Control+k'); await it.keyboard.type('ord'); await it.getByRole('option', { name: /Orders v1/ }).waitFor() }],
          keys: ['/ui/', async (it) => { await it.keyboard.press('?'); await it.getByRole('switch').waitFor() }],
          'editor-fault': ['/ui/new/routes?view=both', async (it) => { await it.getByRole('textbox', { name: 'JSON' }).fill('{"uri": 5, "plugins": {"limit-count": {}}}'); await it.getByRole('alert').first().waitFor() }],
          review: ['/ui/objects/routes/orders-v1/edit?view=json', async (it) => { const text = it.getByRole('textbox', { name: 'JSON' }); await text.fill((await text.inputValue()).replace('"priority": 5', '"priority": 9')); await it.keyboard.press('Control+s'); await it.locator('.diff').waitFor() }],
          isolate: ['/ui/registry/default/stock', (it) => it.getByRole('button', { name: 'Isolate' }).click()],
          delete: ['/ui/objects/upstreams/orders', (it) => it.getByRole('button', { name: 'Delete' }).click()],
          error: ['/ui/objects/routes', async (it) => { await it.route(/console\/v1\/objects/, (route) => route.fulfill({ status: 503, body: '{"error_msg":"the store is away: disk I/O error"}' })); await it.reload(); await it.getByRole('alert').waitFor(); await it.unroute(/console\/v1\/objects/) }],
          unreachable: ['/ui/', async (it) => { await it.route(/\/console\//, (route) => route.abort('connectionrefused')); await it.getByRole('status').filter({ hasText: 'does not answer' }).waitFor(); await it.unroute(/\/console\//) }],
        }
        page.on('dialog', (dialog) => void dialog.accept())
        for (const [colorScheme, width, height] of SHAPES) {
          await page.setViewportSize({ width, height })
          await page.emulateMedia({ colorScheme })
          for (const [name, [path, doing]] of Object.entries(screens)) {
            await shot(SCREENS, `${name}-${colorScheme}-${width}`, path, doing).catch((error: unknown) => console.log(`${name} ${colorScheme} ${width}: ${String(error).slice(0, 300)}`))
          }
        }
      }
      // Among all screens is one of an error, which the browser tells as one.
      if (SCREENS) violations.length = 0
      await page.goto('about:blank')
      await selling
    })
  })
})

test('what is empty, and what comes from a file', async ({ page, browser }) => {
  test.skip(SCREENS === undefined, 'pictures for the eye only')
  const folder = SCREENS as string
  mkdirSync(folder, { recursive: true })
  await withFile({ routes: [] }, async (gateway) => {
    const stranger = await (await browser.newContext()).newPage()
    for (const [colorScheme, width, height] of SHAPES) {
      await stranger.setViewportSize({ width, height })
      await stranger.emulateMedia({ colorScheme })
      await stranger.goto(`${gateway.admin}/ui/`)
      await stranger.locator('input[name=key]').waitFor()
      await stranger.screenshot({ path: join(folder, `sign-in-${colorScheme}-${width}.png`) })
    }
    await stranger.context().close()
    await signIn(page, gateway)
    for (const [colorScheme, width, height] of SHAPES) {
      await page.setViewportSize({ width, height })
      await page.emulateMedia({ colorScheme })
      for (const [name, path] of [['overview', '/ui/'], ['requests', '/ui/requests'], ['routes', '/ui/objects/routes'], ['certificates', '/ui/certificates'], ['registry', '/ui/registry'], ['nodes', '/ui/nodes'], ['changes', '/ui/changes'], ['bench', '/ui/bench'], ['shenyu', '/ui/shenyu/selector'], ['rules', '/ui/registry/rules']]) {
        await page.goto(gateway.admin + path)
        await settle(page)
        await page.screenshot({ path: join(folder, `empty-${name}-${colorScheme}-${width}.png`) })
      }
    }
    await page.goto('about:blank')
  })
})
