/** Everything that is done without a mouse, and where the focus is afterwards. */
import type { Page } from '@playwright/test'
import { ADMIN, expect, signIn, test } from './gateway'

/** What has the focus; never nothing. */
async function hasFocus(page: Page) {
  await expect.poll(() => page.evaluate(() => document.activeElement?.tagName)).not.toBe('BODY')
}

/** Goes to an object by its name. */
async function goTo(page: Page, name: string) {
  await page.keyboard.press('Control+k')
  await page.keyboard.type(name)
  await expect(page.getByRole('option', { name, selected: true })).toBeVisible()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1, name })).toBeFocused()
}

/** Goes from field to field until the one of this label has the focus. */
async function tabTo(page: Page, label: string) {
  for (let count = 0; count < 80; count += 1) {
    await page.keyboard.press('Tab')
    if (await page.evaluate(() => (document.activeElement as HTMLInputElement | null)?.labels?.[0]?.textContent ?? document.activeElement?.getAttribute('aria-label')) === label) return
  }
  throw new Error(`no field ${label}`)
}

test('why something failed is found by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/keys-down', { uri: '/keys-down', upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/keys-down`)).status).toBe(502)
  await signIn(page, gateway)
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await expect(page.getByRole('heading', { level: 1, name: 'Requests' })).toBeFocused()
  await page.keyboard.press('/')
  await page.keyboard.type('code:upstream_connect_failed keys-down')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('button', { name: /code: upstream_connect_failed/ })).toBeVisible()
  await expect(page.getByRole('button', { name: /GET .*\/keys-down/ }).first()).toBeVisible()
  await page.keyboard.press('ArrowDown')
  await page.keyboard.press('Enter')
  await expect(page.getByRole('dialog')).toContainText('What to do')
  await page.keyboard.press('Escape')
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await expect(page.getByRole('button', { name: /GET .*\/keys-down/ }).first()).toBeFocused()
})

test('a route is changed by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/keys-edit', { uri: '/keys-edit', name: 'Keys edit', desc: 'before', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway)
  await goTo(page, 'Keys edit')
  await page.keyboard.press('e')
  await expect(page.getByRole('heading', { level: 1, name: 'Edit route keys-edit' })).toBeFocused()
  await expect(page.getByLabel('Description', { exact: true })).toBeVisible()
  await tabTo(page, 'Description')
  await page.keyboard.press('Control+a')
  await page.keyboard.type('after')
  await page.keyboard.press('Control+s')
  await expect(page.getByRole('button', { name: 'Save' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { level: 1, name: 'Keys edit' })).toBeFocused()
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/keys-edit')).json()
  expect(value.desc).toBe('after')
})

test('a request is explained by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/keys-explain', { uri: '/keys-explain', methods: ['POST'], upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway)
  await page.keyboard.press('g')
  await page.keyboard.press('x')
  await expect(page.getByLabel('URL')).toBeFocused()
  await page.keyboard.insertText(`curl -X POST ${gateway.plane}/keys-explain`)
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'Route keys-explain matches' })).toBeVisible()
  await hasFocus(page)
})

test('a partner gets a key by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/consumers', { username: 'keyspartner' })
  await signIn(page, gateway)
  await goTo(page, 'keyspartner')
  await expect(page.getByRole('button', { name: 'Add a credential' })).toBeEnabled()
  await page.keyboard.press('a')
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Save' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('button', { name: 'I have copied it' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('dialog')).toHaveCount(0)
  await expect(page.getByRole('row', { name: /key-auth/ })).toBeVisible()
  await hasFocus(page)
})

test('an instance is taken out by keyboard alone', async ({ page, gateway }) => {
  for (const port of [1, 2]) await gateway.call('POST', '/registry/v1/instances', { service: 'keysorders', host: '10.7.0.1', port, healthy: true })
  await signIn(page, gateway)
  await goTo(page, 'keysorders')
  await expect(page.getByRole('row', { name: /10\.7\.0\.1/ })).toHaveCount(2)
  await page.keyboard.press('j')
  await page.keyboard.press('i')
  await expect(page.getByRole('dialog').getByRole('button', { name: 'Isolate' })).toBeFocused()
  await page.keyboard.press('Enter')
  await expect(page.getByText('isolated', { exact: true })).toHaveCount(1)
  await hasFocus(page)
})

test('letters are switched off, and the focus comes back from what is closed', async ({ page, gateway }) => {
  await signIn(page, gateway)
  await page.keyboard.press('Control+k')
  await expect(page.getByRole('combobox')).toBeFocused()
  await page.keyboard.press('Escape')
  await expect(page.getByRole('heading', { level: 1, name: 'Overview' })).toBeFocused()
  await page.keyboard.press('?')
  const letters = page.getByRole('switch')
  await expect(letters).toBeChecked()
  await letters.press('Space')
  await expect(letters).not.toBeChecked()
  await page.keyboard.press('Escape')
  await expect(letters).toHaveCount(0)
  await hasFocus(page)
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await page.keyboard.press('?')
  await page.keyboard.press('Control+k')
  await expect(page.getByRole('combobox')).toBeFocused()
  await expect(page.getByRole('heading', { level: 1, name: 'Overview', includeHidden: true })).toHaveCount(1)
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'admin (admin)' }).click()
  await page.getByRole('menuitem', { name: 'Keyboard shortcuts' }).click()
  await letters.click()
  await page.keyboard.press('Escape')
  await expect(letters).toHaveCount(0)
  await page.keyboard.press('g')
  await page.keyboard.press('q')
  await expect(page.getByRole('heading', { level: 1, name: 'Requests' })).toBeFocused()
})

test('the palette finds what ShenYu and the registry have, and codes of errors', async ({ page, gateway }) => {
  await gateway.call('POST', '/console/v1/shenyu/selector', { name: 'palette-selector', pluginId: '5', handle: '[]', selectorConditions: [{ paramType: 'uri', operator: '=', paramName: '/', paramValue: '/p' }] })
  await gateway.call('POST', '/registry/v1/instances', { service: 'palette-service', host: '10.6.0.1', port: 1, healthy: true })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes')
  await page.keyboard.press('Control+k')
  await page.keyboard.type('palette-s')
  await expect(page.getByRole('option', { name: /palette-service/ })).toBeVisible()
  await page.getByRole('option', { name: /palette-selector/ }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'palette-selector' })).toBeVisible()
  await page.keyboard.press('Control+k')
  await page.keyboard.type('code:upstream_timeout')
  await page.getByRole('option', { name: /upstream_timeout/ }).click()
  await expect(page.getByRole('button', { name: /code: upstream_timeout/ })).toBeVisible()
})

test('keys that are pressed right after the palette is asked for are its own', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/keys-soon', { uri: '/keys-soon', name: 'Keys soon', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/keys-soon')
  await expect(page.getByRole('link', { name: 'Edit' })).toBeVisible()
  // All in one turn of the browser: no key waits for what the one before has drawn.
  const pressed = (keys: string[]) => page.evaluate((all) => all.map((key) => {
    const isPalette = key === 'Ctrl+k'
    const at = document.activeElement ?? document.body
    at.dispatchEvent(new KeyboardEvent('keydown', { key: isPalette ? 'k' : key, ctrlKey: isPalette, bubbles: true, cancelable: true }))
    return (document.activeElement as HTMLElement).getAttribute('role') ?? document.activeElement?.tagName ?? ''
  }), keys)
  expect(await pressed(['Ctrl+k', 'e', 'd', 'Ctrl+k'])).toEqual(['combobox', 'combobox', 'combobox', 'combobox'])
  await expect(page.getByRole('dialog')).toHaveCount(1)
  // Chosen and asked for again before the screen that was chosen is there: its heading does not take the focus away.
  await page.keyboard.type('plugin catalogue')
  await expect(page.getByRole('option', { name: 'Plugin catalogue', selected: true })).toBeVisible()
  await expect(page.getByRole('listbox')).toHaveAttribute('aria-busy', 'false')
  expect((await pressed(['Enter', 'Ctrl+k'])).at(-1)).toBe('combobox')
  await expect(page.getByRole('heading', { level: 1, name: 'Plugin catalogue', includeHidden: true })).toBeAttached()
  await expect(page.getByRole('combobox')).toBeFocused()
  // Where the focus is lost behind it, letters press nothing there, and the keys lead back into it.
  await page.evaluate(() => (document.activeElement as HTMLElement).blur())
  await page.keyboard.press('g')
  await page.keyboard.press('r')
  await page.keyboard.press('Control+k')
  await expect(page.getByRole('combobox')).toBeFocused()
  expect(page.url()).toContain('/plugins')
})

test('the range of the charts is moved and zoomed by keys, and stands in the address', async ({ page, gateway }) => {
  // A gateway that nobody has asked anything shows first steps instead of charts.
  await gateway.call('PUT', '/apisix/admin/routes/keys-range', { uri: '/keys-range', upstream: { nodes: { [gateway.origin]: 1 } } })
  await expect.poll(async () => (await fetch(`${gateway.plane}/keys-range`)).status).toBe(200)
  await signIn(page, gateway, ADMIN, '/ui/?range=2h&until=soon')
  const range = page.getByRole('group', { name: 'Range of the charts' })
  await expect(range.getByText('Last 15 minutes')).toBeVisible()
  await page.keyboard.press('+')
  await expect(range.getByText('Last 5 minutes')).toBeVisible()
  await expect(page).toHaveURL(/range=5m/)
  await expect(range.getByRole('button', { name: 'Earlier' })).toHaveAttribute('aria-disabled', 'false')
  await page.keyboard.press('ArrowLeft')
  await expect(range.getByText(/^5 minutes until /)).toBeVisible()
  await expect(page).toHaveURL(/until=\d+/)
  await page.keyboard.press('ArrowRight')
  await expect(range.getByText('Last 5 minutes')).toBeVisible()
  await page.keyboard.press('+')
  await expect(range.getByText('Last minute')).toBeVisible()
  await page.keyboard.press('-')
  await page.keyboard.press('-')
  await expect(range.getByText('Last 15 minutes')).toBeVisible()
  await page.keyboard.press('?')
  await expect(page.getByRole('row', { name: /move the range of the charts/ })).toBeVisible()
  await expect(page.getByRole('row', { name: /zoom the charts/ })).toBeVisible()
})

test('a list is ordered by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/keys-sorted', { uri: '/keys-sorted', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes')
  await expect(page.getByRole('row', { name: /keys-sorted/ })).toBeVisible()
  await page.keyboard.press('s')
  await expect(page.getByRole('columnheader', { name: 'Name' }).getByRole('button')).toBeFocused()
  await page.keyboard.press('s')
  await page.keyboard.press('Enter')
  await expect(page).toHaveURL(/sort=host/)
  await page.keyboard.press('s')
  await expect(page.getByRole('columnheader', { name: 'Path' }).getByRole('button')).toBeFocused()
})
