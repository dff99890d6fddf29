/** Users, groups and policies by the console: made, tried, and taken away; and what a person may do with them. */
import { ADMIN, expect, signIn, test, withSettings } from './gateway'

test('a user gets a token once, a policy as a sentence, and may do what it says', async ({ page, browser }) => {
  test.setTimeout(240_000)
  await withSettings({}, async (gateway) => {
    for (const group of ['open', 'closed']) await gateway.call('POST', '/registry/v1/polaris/config/v1/configfiles', { namespace: 'default', group, name: 'a.txt', content: 'text', format: 'text' })
    await signIn(page, gateway, ADMIN, '/ui/access')
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'New user' }).click()
    await dialog.getByRole('textbox', { name: 'Name' }).fill('mary')
    await dialog.getByRole('button', { name: 'Generate' }).click()
    const password = await dialog.getByLabel('Password', { exact: false }).first().inputValue()
    expect(password.length).toBeGreaterThan(12)
    await dialog.getByRole('button', { name: 'Create' }).click()
    const token = (await dialog.locator('[data-token]').textContent()) ?? ''
    expect(token.length).toBeGreaterThan(20)
    await dialog.getByRole('button', { name: 'Close' }).last().click()
    expect(await page.content()).not.toContain(token)
    await page.getByText('Groups', { exact: true }).first().click()
    await page.getByRole('button', { name: 'New group' }).click()
    await dialog.getByRole('textbox', { name: 'Name' }).fill('writers')
    await dialog.getByRole('checkbox', { name: 'mary' }).check()
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByRole('button', { name: 'Close' }).last().click()
    await expect(page.getByRole('row', { name: /writers/ })).toContainText('mary')
    await page.getByText('Policies', { exact: true }).click()
    await page.getByRole('button', { name: 'New policy' }).click()
    await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('open-files')
    await dialog.getByRole('checkbox', { name: 'writers' }).check()
    await dialog.getByRole('combobox', { name: 'Calls' }).selectOption('read and change')
    await dialog.getByRole('combobox', { name: 'Kind of object' }).selectOption('Configuration group')
    await dialog.getByLabel('Configuration group').fill('default/open')
    await expect(dialog.getByRole('region', { name: 'What it says' })).toHaveText('Members of writers may read and change configuration group default/open.')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await expect(page.getByRole('region', { name: 'open-files' })).toContainText('Members of writers may read and change configuration group default/open.')

    // The same person at the console: one group is hers, the other is out of sight and reach.
    const hers = await browser.newPage()
    await signIn(hers, gateway, token, '/ui/config')
    await expect(hers.getByRole('link', { name: 'open', exact: true })).toBeVisible()
    await expect(hers.getByRole('link', { name: 'closed', exact: true })).toHaveCount(0)
    await hers.goto(`${gateway.admin}/ui/config/default/open?file=a.txt`)
    await hers.getByRole('textbox', { name: 'Content' }).fill('by mary')
    await hers.getByRole('button', { name: 'Save' }).click()
    await expect(hers.getByText('· mary')).toBeVisible()
    const direct = (path: string) => fetch(`${gateway.admin}/registry/v1/polaris/config/v1/configfiles?namespace=default&${path}`, { headers: { 'X-API-KEY': token } })
    expect((await direct('group=open&name=a.txt')).status).toBe(200)
    expect((await direct('group=closed&name=a.txt')).status).not.toBe(200)

    // Who has done it is told by name, and a disabled token is refused at once.
    await page.goto(`${gateway.admin}/ui/changes?kind=registry`)
    await expect(page.getByRole('row', { name: /config-files\/default\/open\/a\.txt/ }).first()).toContainText('mary')
    await expect(page.getByRole('row', { name: /Policy open-files/ })).toContainText('admin')
    await page.goto(`${gateway.admin}/ui/access`)
    await page.getByRole('button', { name: 'Token mary' }).click()
    await dialog.getByRole('button', { name: 'Disable' }).click()
    await expect(dialog.getByText('disabled', { exact: true })).toBeVisible()
    expect((await direct('group=open&name=a.txt')).status).toBe(401)
    await hers.close()
  })
})

test('a rehearsal lists by caller what would be refused', async ({ page }) => {
  await withSettings({ registry: { auth_rehearsal: true } }, async (gateway) => {
    const listeners = (await (await gateway.call('GET', '/console/v1/overview')).json()).listeners as Record<string, string[]>
    const register = () => fetch(`http://${listeners.registry_http?.[0]}/v1/RegisterInstance`, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ service: 'carts', namespace: 'default', host: '10.4.0.1', port: 80 }) })
    expect((await (await register()).json()).code).toBe(200_000)
    await signIn(page, gateway, ADMIN, '/ui/access?tab=rehearsal')
    await expect(page.getByText('rehearsed', { exact: true })).toBeVisible()
    await expect(page.getByRole('row', { name: /127\.0\.0\.1/ }).first()).toBeVisible()
    await expect(page.getByRole('row', { name: /RegisterInstance/ })).toBeVisible()
  })
})
