/** The registry by its screens: names of all sorts, many instances at once, certificates renewed. Forms of rules have a file of their own. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { segmentOf } from '../src/lib/segment'
import { faults } from './axe'
import { ADMIN, expect, signIn, test, withSettings } from './gateway'
import { RULE_EXAMPLES } from './rules'

/** Letters that the registry takes in names: among them those that lead elsewhere in a path. */
const NAMES = ['../../../x', 'a/b', '..', '.', '/', 'a:b/../c', 'v1.2_x-y']

test('names of services that look like ways survive links, reload and back', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const service of NAMES) {
      const made = await gateway.call('POST', '/registry/v1/instances', { namespace: '../ns', service, host: '10.0.0.1', port: 80 })
      expect(made.status, service).toBe(201)
    }
    await signIn(page, gateway, ADMIN, '/ui/registry')
    for (const service of NAMES) {
      await page.getByRole('link', { name: service, exact: true }).click()
      const heading = page.getByRole('heading', { level: 1, name: service, exact: true })
      await expect(heading).toBeVisible()
      await expect(page.getByRole('cell', { name: '10.0.0.1:80', exact: true })).toBeVisible()
      await page.reload()
      await expect(heading).toBeVisible()
      await expect(page.getByRole('cell', { name: '10.0.0.1:80', exact: true })).toBeVisible()
      expect(new URL(page.url()).pathname.startsWith('/ui/registry/'), page.url()).toBe(true)
      await page.goBack()
      await expect(page.getByRole('heading', { level: 1, name: 'Registered services' })).toBeVisible()
    }
  })
})

test('a rule whose id is no plain name survives its link and a reload', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    const id = '../x%2f#?订单 ~2f'
    const made = await gateway.call('POST', '/registry/v1/rules/rate-limit', { ...RULE_EXAMPLES['rate-limit'], id, name: 'odd' })
    expect(made.status, await made.clone().text()).toBe(201)
    await signIn(page, gateway, ADMIN, '/ui/registry/rules')
    await page.getByRole('link', { name: 'odd' }).click()
    for (const again of [false, true]) {
      if (again) await page.reload()
      await expect(page.getByRole('heading', { level: 1, name: 'odd' })).toBeVisible()
      await expect(page.getByRole('region', { name: 'What it says' })).toContainText('At most 100')
    }
    await page.goBack()
    await expect(page.getByRole('heading', { level: 1, name: 'Governance rules' })).toBeVisible()
  })
})

test('many instances are isolated and weighted at once, and the last ones ask for the name', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const port of [1, 2, 3]) await gateway.call('POST', '/registry/v1/instances', { namespace: 'default', service: 'many', host: '10.0.0.1', port, weight: port * 10 })
    await signIn(page, gateway, ADMIN, '/ui/registry/default/many?sort=-weight')
    await expect(page.locator('tbody tr')).toContainText([':3', ':2', ':1'])
    for (const port of [1, 2]) await page.getByRole('checkbox', { name: `Select 10.0.0.1:${port}` }).check()
    const group = page.getByRole('group', { name: '2 instances' })
    await group.getByRole('button', { name: 'Isolate' }).click()
    await expect(page.getByRole('dialog')).toContainText('1 healthy instance remains')
    await page.getByRole('dialog').getByRole('button', { name: 'Isolate' }).click()
    await expect(page.getByRole('dialog')).toHaveCount(0)
    await expect(page.getByText('isolated', { exact: true })).toHaveCount(2)
    await page.getByRole('checkbox', { name: 'Select all' }).check()
    await page.getByRole('group', { name: '3 instances' }).getByRole('button', { name: 'Isolate' }).click()
    const dialog = page.getByRole('dialog')
    await expect(dialog.getByRole('button', { name: 'Isolate' })).toBeDisabled()
    await dialog.getByRole('textbox').fill('many')
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('group', { name: '3 instances' }).getByRole('button', { name: 'Set the weight' }).click()
    await dialog.getByRole('textbox', { name: 'Weight' }).fill('70000')
    await expect(dialog.getByText('A whole number from 0')).toBeVisible()
    await dialog.getByRole('textbox', { name: 'Weight' }).fill('7')
    await dialog.getByRole('button', { name: 'Set the weight' }).click()
    await expect(dialog).toHaveCount(0)
    const { list } = await (await gateway.call('GET', '/registry/v1/instances?service=many')).json()
    expect(list.map((one: { weight: number }) => one.weight)).toEqual([7, 7, 7])
  })
})

test('a certificate is renewed without its key where the stored one fits', async ({ page }) => {
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  const make = (name: string, key: string, isNew: boolean, names: string) => {
    const own = isNew ? ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', join(folder, key)] : ['-key', join(folder, key)]
    execFileSync('openssl', ['req', '-x509', ...own, '-days', '90', '-subj', '/CN=test', '-addext', `subjectAltName=${names}`, '-out', join(folder, name)], { stdio: 'ignore' })
  }
  const read = (name: string) => readFileSync(join(folder, name), 'utf8')
  make('old.pem', 'a.key', true, 'DNS:a.test,DNS:b.test')
  make('new.pem', 'a.key', false, 'DNS:b.test,DNS:c.test')
  make('other.pem', 'b.key', true, 'DNS:b.test')
  await withSettings({}, async (gateway) => {
    await gateway.call('PUT', '/apisix/admin/ssls/shop', { snis: ['b.test'], cert: read('old.pem'), key: read('a.key') })
    await signIn(page, gateway, ADMIN, '/ui/certificates?id=shop')
    await page.getByRole('button', { name: 'Renew' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('textbox', { name: 'New certificate' }).fill(read('new.pem'))
    await dialog.getByRole('button', { name: 'Check' }).click()
    await expect(dialog.getByText('The stored key matches.')).toBeVisible()
    await expect(dialog.getByText('Names added: c.test')).toBeVisible()
    await expect(dialog.getByText('Names removed: a.test')).toBeVisible()
    await expect(dialog.getByRole('textbox')).toHaveCount(1)
    await dialog.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByText(/Saved as revision/)).toBeVisible()
    await page.goto(`${gateway.admin}/ui/certificates?id=shop`)
    await page.getByRole('button', { name: 'Renew' }).click()
    await dialog.getByRole('textbox', { name: 'New certificate' }).fill(read('other.pem'))
    await dialog.getByRole('button', { name: 'Check' }).click()
    await expect(dialog.getByText('The stored key does not match')).toBeVisible()
    await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled()
    await dialog.getByRole('textbox', { name: 'Its private key' }).fill(read('b.key'))
    await dialog.getByRole('button', { name: 'Save' }).click()
    await expect(dialog.getByText('The stored key does not match')).toHaveCount(0)
    const { rows } = await (await gateway.call('GET', '/console/v1/certificates')).json()
    expect(rows[0].names).toEqual(['b.test'])
  })
  rmSync(folder, { recursive: true })
})

test('the aliases of a service are listed on it, and none of another', async ({ page, gateway }) => {
  await gateway.call('POST', '/registry/v1/instances', { service: 'aliased', host: '10.5.0.1', port: 1, healthy: true })
  await signIn(page, gateway, ADMIN, '/ui/registry/default/aliased')
  await page.getByText('Aliases', { exact: true }).click()
  await expect(page).toHaveURL(/tab=aliases/)
  await expect(page.getByText(/^No aliases/)).toBeVisible()
  for (const [name, target] of [['aliased-old', 'aliased'], ['aliased-else', 'elsewhere']]) {
    await gateway.call('POST', '/registry/v1/services', { name: target })
    const made = await gateway.call('POST', '/registry/v1/aliases', { name, target: { namespace: 'default', name: target }, comment: 'the name before' })
    expect(made.status, await made.text()).toBe(201)
  }
  await page.reload()
  await expect(page.getByRole('row', { name: /aliased-old.*the name before/ })).toBeVisible()
  await expect(page.getByText('aliased-else')).toHaveCount(0)
})
