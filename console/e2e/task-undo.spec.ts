/** A task of the night shift, done by what is written on the page alone: find the change that broke a route, and undo it. */
import { expect, signIn, test, withOrigin, withSettings } from './gateway'
import { ADMIN, VIEWER } from './gateway'

test('the change that broke a route is found and undone in two clicks', async ({ page }) => {
  test.setTimeout(240_000)
  await withOrigin((_, end) => end('well'), async (origin) => {
    await withSettings({ admin: { key: ADMIN, viewer_key: VIEWER } }, async (gateway) => {
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
      let clicks = 0
      const press = async (name: string | RegExp) => {
        await page.getByRole('button', { name }).first().click()
        clicks += 1
      }
      const began = Date.now()
      const wrong = page.getByRole('region', { name: 'Needs attention' })
      await expect(wrong.getByText(/last change: upstreams\/billing replaced by admin/).first()).toBeVisible()
      await expect(page.getByRole('banner').getByText(/problem/)).toBeVisible()
      await press('Undo the change of upstreams/billing')
      const dialog = page.getByRole('dialog')
      await expect(dialog).toContainText('This restores the previous version exactly.')
      await expect(dialog.locator('.diff .new')).toContainText([origin])
      await dialog.getByRole('button', { name: 'Undo' }).click()
      clicks += 1
      await expect(dialog).toHaveCount(0)
      const took = Date.now() - began
      await expect.poll(status).toBe(200)
      console.log('measured', JSON.stringify({ task: 'undo what broke a route', clicks, 'ms in the browser': took }))
      expect(clicks).toBe(2)
      await page.goto('about:blank')
    })
  })
})
