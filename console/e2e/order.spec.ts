/** Lists in the order that is asked for, and what narrows them. */
import { ADMIN, expect, signIn, test, withSettings } from './gateway'

test('heads of columns order a list by pointer and by key, and the address has it', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const [id, name, uri] of [['1', 'cart', '/z'], ['2', 'Billing', '/y'], ['3', 'area', '/x']]) {
      await gateway.call('PUT', `/apisix/admin/routes/${id}`, { name, uri, upstream: { nodes: { '127.0.0.1:1': 1 } } })
    }
    await signIn(page, gateway, ADMIN, '/ui/objects/routes')
    const names = page.locator('tbody tr td:nth-child(2) a')
    await expect(names).toHaveText(['cart', 'Billing', 'area'])
    const head = page.getByRole('columnheader', { name: 'Name' })
    await expect(head).toHaveAttribute('aria-sort', 'none')
    await head.getByRole('button').click()
    await expect(names).toHaveText(['area', 'Billing', 'cart'])
    await expect(head).toHaveAttribute('aria-sort', 'ascending')
    await head.getByRole('button').focus()
    await page.keyboard.press('Enter')
    await expect(head).toHaveAttribute('aria-sort', 'descending')
    await expect(names).toHaveText(['cart', 'Billing', 'area'])
    expect(page.url()).toContain('sort=-name')
    await page.reload()
    await expect(names).toHaveText(['cart', 'Billing', 'area'])
    await page.getByRole('columnheader', { name: 'Path' }).getByRole('button').click()
    await expect(names).toHaveText(['area', 'Billing', 'cart'])
    await expect(head).toHaveAttribute('aria-sort', 'none')
  })
})

test('words of a filter are chips that take themselves away', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    const upstream = { nodes: { '127.0.0.1:1': 1 } }
    await gateway.call('PUT', '/apisix/admin/routes/on', { uri: '/on', plugins: { cors: {} }, upstream })
    await gateway.call('PUT', '/apisix/admin/routes/off', { uri: '/off', status: 0, plugins: { cors: {} }, upstream })
    await signIn(page, gateway, ADMIN, '/ui/objects/routes?q=plugin:cors')
    const rows = page.locator('tbody tr')
    await expect(rows).toHaveCount(2)
    await page.getByRole('button', { name: 'Switched off' }).click()
    await expect(rows).toHaveCount(1)
    await expect(page.getByRole('button', { name: 'Switched off' })).toHaveAttribute('aria-pressed', 'true')
    await page.getByRole('button', { name: 'Remove the filter plugin:cors' }).click()
    await expect(page.getByRole('textbox', { name: /ID, name/ })).toHaveValue('status:off')
    await page.getByRole('button', { name: 'Switched off' }).click()
    await expect(rows).toHaveCount(2)
    await page.getByRole('button', { name: 'With a problem' }).click()
    await expect(page.getByText(/Nothing matches/)).toBeVisible()
    await page.getByRole('button', { name: 'Clear' }).click()
    await expect(rows).toHaveCount(2)
  })
})

test('nodes are narrowed to one state, whose count is told, and the address has it', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const [id, port] of [['down', 1], ['idle', 2]] as const) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { uri: `/${id}`, upstream: { nodes: { [`127.0.0.1:${port}`]: 1 } } })
    await expect.poll(async () => (await fetch(`${gateway.plane}/down`)).status).toBe(502)
    for (let count = 0; count < 30; count += 1) await fetch(`${gateway.plane}/down`)
    await signIn(page, gateway, ADMIN, '/ui/nodes')
    const rows = page.locator('tbody tr')
    await expect(rows).toHaveCount(2)
    await page.getByText('failing 1', { exact: true }).click()
    await expect(rows).toHaveCount(1)
    await expect(rows).toContainText('127.0.0.1:1')
    await expect(page).toHaveURL(/state=failing/)
    await page.reload()
    await expect(rows).toHaveCount(1)
    await page.goBack()
    await expect(rows).toHaveCount(2)
    await page.goto(`${gateway.admin}/ui/nodes?state=unhealthy`)
    await page.getByRole('button', { name: 'Clear' }).click()
    await expect(rows).toHaveCount(2)
    await page.goto('about:blank')
  })
})
