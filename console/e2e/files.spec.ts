/** Configuration files by the console: written, released to all and to some, rolled back, searched, exported and imported. */
import { readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ADMIN, expect, type Gateway, signIn, test, VIEWER } from './gateway'

const polaris = (gateway: Pick<Gateway, 'call'>, method: string, path: string, body?: unknown) => gateway.call(method, `/registry/v1/polaris/${path}`, body)

/** What a client of this address gets. */
async function fetched(gateway: Pick<Gateway, 'call'>, group: string, name: string): Promise<string | undefined> {
  const listeners = (await (await gateway.call('GET', '/console/v1/overview')).json()).listeners as Record<string, string[]>
  const answer = await fetch(`http://${listeners.registry_http?.[0]}/config/v1/GetConfigFile?namespace=default&group=${group}&fileName=${encodeURIComponent(name)}`)
  return (await answer.json()).configFile?.content
}

test('a file is written, refused where it does not parse, released, and rolled back', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/config')
  await page.getByRole('button', { name: 'New group' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('textbox', { name: 'Name', exact: true }).fill('shop')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'shop' })).toBeVisible()
  await page.getByRole('button', { name: 'New file' }).first().click()
  await dialog.getByRole('textbox', { name: 'Name' }).fill('db/pool.yaml')
  await expect(dialog.getByRole('combobox', { name: 'Format' })).toHaveValue('yaml')
  await dialog.getByRole('button', { name: 'Create' }).click()
  const content = page.getByRole('textbox', { name: 'Content' })
  await content.fill('size: 1\nopen: [\n')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Save' })).toBeDisabled()
  await page.getByRole('button', { name: 'Release…' }).click()
  await dialog.getByRole('button', { name: 'Release to all clients' }).click()
  await expect(dialog.getByRole('alert')).toContainText('the content is not yaml')
  await dialog.getByRole('button', { name: /Go to line \d/ }).click()
  await expect(content).toBeFocused()
  await content.fill('size: 1\n')
  await page.getByRole('button', { name: 'Save' }).click()
  for (const [text, name] of [['size: 1\n', 'first'], ['size: 2\n', 'second']]) {
    if (name === 'second') {
      await content.fill(text as string)
      await page.getByRole('button', { name: 'Save' }).click()
    }
    await expect(page.getByRole('button', { name: 'Save' })).toBeDisabled()
    await page.getByRole('button', { name: 'Release…' }).click()
    await dialog.getByRole('textbox', { name: 'Release', exact: true }).or(dialog.getByLabel('Release', { exact: true })).first().fill(name as string)
    await dialog.getByLabel('Reason').fill(`the ${name} one`)
    await dialog.getByRole('button', { name: 'Release to all clients' }).click()
    await expect(dialog).toHaveCount(0)
    await expect.poll(() => fetched(gateway, 'shop', 'db/pool.yaml')).toBe(text)
  }
  await page.getByText('Releases 2').click()
  await page.getByRole('button', { name: 'Roll back first' }).click()
  await expect(dialog).toContainText('size: 2')
  await dialog.getByRole('button', { name: 'Roll back' }).click()
  await expect(dialog).toHaveCount(0)
  await expect.poll(() => fetched(gateway, 'shop', 'db/pool.yaml')).toBe('size: 1\n')
  await expect(page.getByRole('region', { name: 'History' })).toContainText('Rolled back')
  // Who has done it stands among all changes.
  await page.goto(`${gateway.admin}/ui/changes?kind=registry`)
  await expect(page.getByRole('row', { name: /config-files\/default\/shop\/db\/pool\.yaml/ }).first()).toContainText('admin')
})

test('a gray release reaches the clients with its labels alone, until it is stopped', async ({ page, gateway }) => {
  const file = { namespace: 'default', group: 'gray', name: 'app.properties' }
  await polaris(gateway, 'POST', 'config/v1/configfiles', { ...file, content: 'a=1', format: 'properties' })
  await polaris(gateway, 'POST', 'config/v1/configfiles/release', { ...file, file_name: file.name })
  await polaris(gateway, 'PUT', 'config/v1/configfiles', { ...file, content: 'a=2', format: 'properties' })
  await signIn(page, gateway, ADMIN, '/ui/config/default/gray?file=app.properties')
  await page.getByRole('button', { name: 'Release…' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('radio', { name: /certain labels/ }).check()
  await dialog.getByLabel('Value').fill('127.0.0.1')
  await dialog.getByRole('button', { name: 'Release to these clients' }).click()
  await expect(dialog).toHaveCount(0)
  await expect(page.getByText(/^gray: /)).toBeVisible()
  expect(await fetched(gateway, 'gray', 'app.properties')).toBe('a=2')
  await page.getByText('Releases 2').click()
  await page.getByRole('button', { name: 'Stop gray release' }).click()
  await dialog.getByRole('button', { name: 'Stop gray release' }).click()
  await expect(dialog).toHaveCount(0)
  await expect.poll(() => fetched(gateway, 'gray', 'app.properties')).toBe('a=1')
})

test('files are searched by content, exported and imported; encrypted ones are marked and closed to viewers', async ({ page, gateway }) => {
  const file = (name: string, more: object) => polaris(gateway, 'POST', 'config/v1/configfiles', { namespace: 'default', group: 'moved', name, format: 'text', ...more })
  await file('open.txt', { content: 'first\nneedle here\n' })
  await file('sealed.txt', { content: 'needle too', encrypted: true, encrypt_algo: 'AES' })
  await signIn(page, gateway, ADMIN, '/ui/config')
  await page.getByRole('combobox', { name: 'Search in' }).selectOption('Contents')
  await page.getByRole('textbox', { name: 'Search' }).fill('needle')
  await expect(page.getByRole('region', { name: 'open.txt' })).toContainText('2 needle here')
  await expect(page.getByRole('region', { name: 'sealed.txt' })).toHaveCount(0)
  await page.getByRole('link', { name: 'open.txt' }).click()
  await expect(page.getByRole('button', { name: /sealed\.txt/ }).getByRole('img', { name: 'encrypted' })).toBeVisible()
  const download = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Export' }).click()
  const archive = join(tmpdir(), `tollhouse-e2e-${process.pid}.zip`)
  writeFileSync(archive, readFileSync(await (await download).path()))
  await page.goto(`${gateway.admin}/ui/config`)
  await page.getByRole('button', { name: 'Import' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Namespace').fill('default')
  await dialog.getByLabel('Group').fill('arrived')
  await dialog.getByLabel('Archive (.zip)').setInputFiles(archive)
  await dialog.getByRole('button', { name: 'Import' }).click()
  await expect(dialog).toContainText('Created: ')
  const arrived = await (await polaris(gateway, 'GET', 'config/v1/configfiles?namespace=default&group=arrived&name=open.txt')).json()
  expect(arrived.configFile.content).toBe('first\nneedle here\n')
  const seen = await fetch(`${gateway.admin}/registry/v1/polaris/config/v1/configfiles?namespace=default&group=moved&name=sealed.txt`, { headers: { 'X-API-KEY': VIEWER } })
  expect(await seen.text()).not.toMatch(/needle|datakey/)
})
