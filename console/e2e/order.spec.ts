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
