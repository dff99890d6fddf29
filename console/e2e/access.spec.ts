/** What everybody can use: axe and a keyboard on every screen, in both themes and languages. */
import type { Page } from '@playwright/test'
import { ADMIN, expect, signIn, test } from './gateway'
import { everyScreen, open } from './screens'

/** Pixels that whatever is pressed has at least, across and down. */
const TARGET = 24

/** What of a page is pressed and too small for it; what stands within a text is as high as that. */
const tooSmall = (page: Page) =>
  page.evaluate((least) => {
    const found: string[] = []
    for (const it of document.querySelectorAll<HTMLElement>('a[href], button, input, select, textarea, summary, [role=option], [role=menuitem], [role=menuitemradio], label.mantine-SegmentedControl-label')) {
      // A tick is pressed by its label, too.
      const { width, height } = (it.closest('.mantine-Checkbox-body, .mantine-Switch-body') ?? it).getBoundingClientRect()
      const style = getComputedStyle(it)
      if (width <= 1 || height <= 1 || style.visibility === 'hidden' || style.opacity === '0' || style.display === 'inline' || it.closest('.unseen, .skip, [aria-hidden=true]')) continue
      if (width < least - 0.5 || height < least - 0.5) found.push(`${it.outerHTML.slice(0, 160)} is ${Math.round(width)} × ${Math.round(height)}`)
    }
    return found
  }, TARGET)

/** Texts of a page in the pseudo-language that are none of its words, and texts that are cut. */
const glued = (page: Page) =>
  page.evaluate(() => {
    const found: string[] = []
    const walker = document.createTreeWalker(document.querySelector('#root') ?? document.body, NodeFilter.SHOW_TEXT)
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const text = (node.nodeValue ?? '').trim()
      const at = node.parentElement as HTMLElement
      if (!/[A-Za-z]{2}/.test(text) || text.includes('⟦') || at.closest('[lang=en], [lang=zh], .mono, code, kbd, pre, time, textarea, option, script, style, .chart, .diff, .mantine-Checkbox-label, .mantine-SegmentedControl-innerLabel')) continue
      if (at.offsetParent === null) continue
      found.push(`${text.slice(0, 80)} <${at.tagName} ${at.className}>`)
    }
    for (const it of document.querySelectorAll<HTMLElement>('button, a, h1, h2, th, td, label, legend, p, span')) {
      const style = getComputedStyle(it)
      if (style.overflowX !== 'hidden' || it.closest('.unseen, .mantine-Switch-track') || style.webkitLineClamp !== 'none') continue
      if (it.scrollWidth > it.clientWidth + 1 && it.clientWidth > 0) found.push(`cut: ${it.textContent?.slice(0, 60)} <${it.tagName} ${it.className}>`)
    }
    const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth
    if (wide > 0) found.push(`${wide} px too wide`)
    return found
  })

test('every screen speaks through its words, cuts none of them where they are longer, and is pressed with ease', async ({ page, gateway }) => {
  test.setTimeout(900_000)
  const screens = await everyScreen(gateway)
  await signIn(page, gateway)
  await page.evaluate(() => localStorage.setItem('tollhouse-language', 'en-XA'))
  const found: string[] = []
  // Names of objects, plugins and methods are no words.
  const plugins = ((await (await gateway.call('GET', '/console/v1/plugins')).json()).rows as { name: string }[]).map(({ name }) => name)
  const shenyu = ((await (await gateway.call('GET', '/console/v1/shenyu/plugin?currentPage=1&pageSize=200')).json()).data.dataList as { name: string; role: string }[]).flatMap(({ name, role }) => [name, role])
  const { hostname } = await (await gateway.call('GET', '/console/v1/overview')).json()
  const names = new Set([...plugins, ...shenyu, hostname, 'Tollhouse', 'admin', 'default', 'Polaris', 'polaris', 'GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'HEAD', 'OPTIONS', 'CONNECT', 'TRACE', 'PURGE', 'code', 'status', 'http'])
  const isName = (fault: string) => fault.replace(/ <[A-Z].*$/, '').split(/[\s,·:]+/).every((word) => names.has(word) || /\bany|upstream_connect_failed|^[^A-Za-z]*$/.test(word))
  for (const path of screens) {
    await open(page, gateway.admin + path)
    for (const fault of [...(await glued(page)).filter((it) => !isName(it)), ...(await tooSmall(page))]) found.push(`${path}: ${fault}`)
  }
  await page.evaluate(() => localStorage.removeItem('tollhouse-language'))
  expect([...new Set(found)].join('\n')).toBe('')
})

test('what has the focus is hidden by no bar', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  await gateway.call('PUT', '/apisix/admin/routes/bars', { uri: '/bars', plugins: { 'limit-count': { count: 5, time_window: 60 }, cors: {} }, upstream: { nodes: { [gateway.origin]: 1 } } })
  await page.setViewportSize({ width: 1000, height: 420 })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/bars/edit?view=form')
  await page.getByLabel('Per', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Discard the changes' }).scrollIntoViewIfNeeded()
  await page.getByLabel('Per', { exact: true }).focus()
  const hidden: string[] = []
  for (let count = 0; count < 40; count += 1) {
    await page.keyboard.press('Shift+Tab')
    const over = await page.evaluate(() => {
      const at = document.activeElement as HTMLElement
      const bar = document.querySelector('header') as HTMLElement
      if (bar.contains(at) || at === document.body || at.closest('nav') || at.matches('.skip')) return ''
      return at.getBoundingClientRect().top < bar.getBoundingClientRect().bottom ? at.outerHTML.slice(0, 120) : ''
    })
    if (over !== '') hidden.push(over)
  }
  expect(hidden).toEqual([])
})

test('a time is told anew while the page stays open, and exactly to who looks at it', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/times', { uri: '/times', upstream: { nodes: { [gateway.origin]: 1 } } })
  const { rows } = await (await gateway.call('GET', '/console/v1/changes?kind=routes&id=times')).json()
  await page.clock.install()
  await signIn(page, gateway, ADMIN, `/ui/changes/${rows[0].name}`)
  await expect(page.locator('time')).toHaveText(/second|now/)
  await page.clock.runFor(180_000)
  await expect(page.locator('time')).toHaveText('3 minutes ago')
  await page.goto(`${gateway.admin}/ui/objects/routes?q=times`)
  const time = page.getByRole('row', { name: /times/ }).locator('time')
  await time.waitFor()
  await page.keyboard.press('j')
  await expect.poll(() => time.evaluate((it) => getComputedStyle(it, '::after').content)).toContain(String(new Date().getFullYear()))
})

test('a chart is a table to who wants one', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/charts', { uri: '/charts', upstream: { nodes: { [gateway.origin]: 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/charts`)).status).toBe(200)
  await signIn(page, gateway)
  const charts = page.getByRole('img', { name: /\w/ })
  await expect(charts).toHaveCount(3)
  for (const chart of await charts.all()) expect((await chart.getAttribute('aria-label'))?.endsWith('.')).toBe(true)
  // What is open now is among what was open at most.
  const [now, most] = [...((await page.getByRole('img', { name: /open now/ }).getAttribute('aria-label')) ?? '').matchAll(/\d+/g)].map(Number)
  expect(most).toBeGreaterThanOrEqual(now as number)
  const table = page.getByText('As a table').first()
  await table.click()
  await expect(page.getByRole('columnheader', { name: '5xx' })).toBeVisible()
  const rows = page.getByRole('table').filter({ has: page.getByRole('columnheader', { name: '5xx' }) }).getByRole('row')
  await expect.poll(() => rows.count()).toBeGreaterThan(100)
})

test('a number that changes by itself is not announced, and the count of a search is', async ({ page, gateway }) => {
  for (const id of ['said-a', 'said-b']) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { uri: `/${id}`, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes?q=said')
  await expect(page.getByText('2 objects', { exact: true }).first()).toBeVisible()
  const said = () => page.locator('#content [aria-live], #content [role=status]').allTextContents()
  expect((await said()).join('')).not.toContain('object')
  await page.locator('[data-filter]').fill('said-a')
  await expect.poll(async () => (await said()).join('')).toContain('1 object')
  await expect(page.getByRole('row', { name: /said-a/ })).toHaveAttribute('aria-rowindex', '2')
  await expect(page.getByRole('table')).toHaveAttribute('aria-rowcount', '2')
})
