/** Objects as documents: planned, brought in, taken back, kept as files. */
import { readFileSync } from 'node:fs'
import { ADMIN, expect, type Gateway, signIn, test, VIEWER, withFile } from './gateway'
import { faults } from './axe'

const document = (origin: string, id: string) => `
upstreams:
  - {id: ${id}, nodes: {"${origin}": 1}}
routes:
  - {id: ${id}, uri: /${id}, upstream_id: ${id}}
consumers:
  - {username: ${id.replace(/-/g, '_')}, plugins: {key-auth: {key: ${id}-secret}}}
#END
`

const stored = async (gateway: Gateway, path: string) => (await gateway.call('GET', `/apisix/admin/${path}`)).status

test('a pasted document is planned, carried out as one change, and undone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/brought', { uri: '/before', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/changes')
  await page.getByRole('link', { name: 'Import…' }).click()
  await page.getByRole('textbox', { name: 'Document' }).fill(document(gateway.origin, 'brought'))
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByRole('status').filter({ hasText: '2 created, 1 replaced, 0 deleted' })).toBeVisible()
  expect(await stored(gateway, 'upstreams/brought')).toBe(404)
  const row = page.getByRole('row', { name: /replaced.*brought/ })
  await expect(row).toContainText('/before → /brought')
  await row.getByRole('button', { name: 'Difference: routes/brought' }).click()
  await expect(page.locator('.diff .new').filter({ hasText: '"/brought"' })).toBeVisible()
  await expect(page.getByText('brought-secret', { exact: true })).toHaveCount(0)
  expect(await faults(page)).toEqual([])
  await page.getByRole('button', { name: 'Apply 3 changes' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'Import objects' })).toBeVisible()
  expect(await stored(gateway, 'upstreams/brought')).toBe(200)
  await expect(page.getByText('admin · import')).toBeVisible()
  await page.locator('[data-undo]').click()
  await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click()
  await expect.poll(() => stored(gateway, 'upstreams/brought')).toBe(404)
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/brought')).json()
  expect(value.uri).toBe('/before')
})

test('a plan that others have overtaken writes nothing, and is made again', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/changes/import')
  await page.getByRole('textbox', { name: 'Document' }).fill(document(gateway.origin, 'late'))
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByRole('button', { name: 'Apply 3 changes' })).toBeEnabled()
  await gateway.call('PUT', '/apisix/admin/routes/other-hand', { uri: '/other', upstream: { nodes: { [gateway.origin]: 1 } } })
  await page.getByRole('button', { name: 'Apply 3 changes' }).click()
  await expect(page.getByRole('alert')).toContainText('after the plan was made')
  expect(await stored(gateway, 'routes/late')).toBe(404)
  await page.getByRole('button', { name: 'Try again' }).click()
  await expect(page.getByRole('alert')).toHaveCount(0)
  await page.getByRole('button', { name: 'Apply 3 changes' }).click()
  await expect.poll(() => stored(gateway, 'routes/late')).toBe(200)
})

test('faults of a document stand with their places, and a file that is no document says so', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/changes/import')
  const text = page.getByRole('textbox', { name: 'Document' })
  await text.fill('routes:\n  - {id: bad, uri: /bad, upstream_id: nobody}\n')
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByRole('alert')).toContainText('routes/bad (routes[0])/upstream_id')
  await expect(page.getByRole('button', { name: 'Apply 1 change' })).toBeDisabled()
  await text.fill('routes: [')
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByRole('alert')).toContainText('not valid YAML')
  await expect(text).toHaveValue('routes: [')
})

test('a dropped file is read, and what the document lacks goes where that is asked for', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/changes/import')
  const exported = await (await gateway.call('GET', '/console/v1/export')).text()
  await page.evaluate((text) => {
    const data = new DataTransfer()
    data.items.add(new File([text], 'objects.yaml'))
    window.document.querySelector('.drop')?.dispatchEvent(new DragEvent('drop', { dataTransfer: data, bubbles: true, cancelable: true }))
  }, exported)
  await expect(page.getByRole('textbox', { name: 'Document' })).toHaveValue(exported)
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByText('Nothing would change.')).toBeVisible()
  await gateway.call('PUT', '/apisix/admin/routes/extra', { uri: '/extra', upstream: { nodes: { [gateway.origin]: 1 } } })
  await page.getByRole('checkbox', { name: 'Delete objects that are not in the document' }).check()
  await page.getByRole('button', { name: 'Show what would change' }).click()
  await expect(page.getByRole('row', { name: /deleted.*extra/ })).toBeVisible()
})

test('lists and all objects are kept as files, without secrets', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/consumers/kept', { plugins: { 'key-auth': { key: 'kept-secret-1' } } })
  for (const id of ['kept-a', 'kept-b']) await gateway.call('PUT', `/apisix/admin/routes/${id}`, { name: id, uri: `/${id}`, upstream: { nodes: { [gateway.origin]: 1 } } })
  const kept = async (press: () => Promise<void>) => {
    const [download] = await Promise.all([page.waitForEvent('download'), press()])
    return { name: download.suggestedFilename(), text: readFileSync(await download.path(), 'utf8') }
  }
  await signIn(page, gateway, ADMIN, '/ui/objects/routes?q=kept')
  const found = await kept(() => page.getByRole('button', { name: 'Export' }).click())
  expect(found.name).toBe('routes.yaml')
  expect(found.text).toContain('kept-a')
  expect(found.text).toContain('kept-b')
  await page.getByRole('checkbox', { name: 'Select kept-b' }).check()
  const ticked = await kept(() => page.getByRole('button', { name: 'Export 1 selected' }).click())
  expect(ticked.text).not.toContain('kept-a')
  await page.goto(`${gateway.admin}/ui/changes`)
  const all = await kept(() => page.getByRole('button', { name: 'Export all objects' }).click())
  expect(all.text).toContain('kept')
  expect(all.text).not.toContain('kept-secret-1')
})

test('a viewer sees why nothing is imported, and a file that holds all objects is named', async ({ page, gateway }) => {
  await signIn(page, gateway, VIEWER, '/ui/changes/import')
  await page.getByRole('textbox', { name: 'Document' }).fill('{}')
  await expect(page.getByRole('button', { name: 'Show what would change' })).toBeDisabled()
  await withFile({ routes: [] }, async (own) => {
    await page.context().clearCookies()
    await signIn(page, own, ADMIN, '/ui/changes/import')
    await page.getByRole('textbox', { name: 'Document' }).fill('{}')
    await expect(page.getByRole('button', { name: 'Show what would change' })).toBeDisabled()
    await expect(page.getByText(/resources\.json; change them there/).first()).toBeVisible()
  })
})
