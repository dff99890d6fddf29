/** Objects of every kind: made, opened, edited and deleted by their screens. */
import type { Page } from '@playwright/test'
import { ADMIN, expect, type Gateway, signIn, test, VIEWER } from './gateway'

const PROTO = 'syntax = "proto3";\npackage shop;\nservice Orders { rpc Get (Id) returns (Id); }\nmessage Id { string id = 1; }\n'

/** Adds a plugin by the gallery. */
async function add(page: Page, plugin: string) {
  await page.getByRole('button', { name: 'Add plugin' }).click()
  await page.getByRole('textbox', { name: 'Search by name or purpose' }).fill(plugin)
  await page.getByRole('dialog').getByRole('button', { name: new RegExp(`^${plugin} `) }).click()
}

/** Opens the notes, where a description stands, unless they are open. */
async function reveal(page: Page, field: string) {
  if (field === 'Description' && !(await page.getByLabel('Description', { exact: true }).isVisible())) await page.getByText('Notes', { exact: true }).click()
}

/** What is typed to make the first object of a kind, by hand and in its form, and what it is then called. */
const MADE: Record<string, { id: string; name: string; make: (page: Page) => Promise<void>; field: string; next: string }> = {
  consumer_groups: {
    id: 'gold', name: 'Gold', field: 'Description', next: 'who pay',
    make: async (page) => {
      await page.getByRole('textbox', { name: 'ID', exact: true }).fill('gold')
      await page.getByLabel('Name', { exact: true }).fill('Gold')
      await add(page, 'limit-count')
      await page.getByLabel('Requests allowed').fill('100')
    },
  },
  plugin_metadata: {
    id: 'http-logger', name: 'http-logger', field: 'host', next: '$http_host',
    make: async (page) => {
      await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
      await page.getByRole('combobox', { name: 'Plugin', exact: true }).selectOption('http-logger')
      await page.getByLabel('New name in log_format').fill('host')
      await page.getByLabel('New name in log_format').press('Enter')
      await page.getByLabel('host', { exact: true }).fill('$host')
    },
  },
  protos: {
    id: 'shop-orders', name: 'Protos of orders', field: 'Description', next: 'of the shop',
    make: async (page) => {
      await page.getByRole('textbox', { name: 'ID', exact: true }).fill('shop-orders')
      await page.getByLabel('Name', { exact: true }).fill('Protos of orders')
      await page.getByLabel('Proto file', { exact: true }).fill(PROTO)
    },
  },
  secrets: {
    id: 'aws/shop', name: 'aws/shop', field: 'Access key ID', next: 'AKIA2',
    make: async (page) => {
      await page.getByLabel('Manager').selectOption('aws')
      await page.getByRole('textbox', { name: 'ID', exact: true }).fill('shop')
      await page.getByLabel('Access key ID', { exact: true }).fill('AKIA1')
      await page.getByLabel('Secret access key', { exact: true }).fill('hush-aws')
    },
  },
}

const stored = async (gateway: Gateway, path: string) => (await (await gateway.call('GET', `/apisix/admin/${path}`)).json()).value as Record<string, unknown>

for (const [kind, { id, name, make, field, next }] of Object.entries(MADE)) {
  test(`one of ${kind} is made by its form, found, changed, copied, deleted and brought back`, async ({ page, gateway, context }) => {
    await context.grantPermissions(['clipboard-read', 'clipboard-write'])
    // What other tests of this gateway have left is none of the first.
    const { rows } = (await (await gateway.call('GET', `/console/v1/objects/${kind}`)).json()) as { rows: { id: string }[] }
    for (const { id: left } of rows) await gateway.call('DELETE', `/apisix/admin/${kind}/${left}?force=true`)
    await signIn(page, gateway, ADMIN, `/ui/objects/${kind}`)
    // The empty list says how the first is made.
    await expect(page.locator('.example')).toContainText(`/apisix/admin/${kind}/`)
    await page.getByRole('link', { name: 'New' }).click()
    await make(page)
    await page.keyboard.press('Control+s')
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('heading', { level: 1, name, exact: true })).toBeVisible()
    await expect(page.locator('.saved')).toContainText('Saved as revision')
    // By the palette, by the list and its filter.
    await page.keyboard.press('Control+k')
    await page.keyboard.type(id)
    await page.getByRole('option', { name }).first().click()
    await expect(page.getByRole('heading', { level: 1, name, exact: true })).toBeVisible()
    await page.goto(`${gateway.admin}/ui/objects/${kind}?q=${encodeURIComponent(id)}`)
    await page.getByRole('link', { name, exact: true }).click()
    // One field, one line, one difference.
    await page.getByRole('link', { name: 'Edit' }).click()
    await reveal(page, field)
    await page.getByLabel(field, { exact: true }).fill(next)
    await page.keyboard.press('Control+s')
    await expect(page.locator('.diff .new')).not.toHaveCount(0)
    await page.getByRole('button', { name: 'Save' }).click()
    await expect(page.getByRole('button', { name: 'Delete' })).toBeEnabled()
    const changes = await (await gateway.call('GET', `/console/v1/changes?kind=${kind}&id=${encodeURIComponent(id)}`)).json()
    expect(changes.rows[0].differences).toHaveLength(1)
    const whole = await stored(gateway, `${kind}/${id}`)
    // The command makes the same object where there is none.
    await page.getByRole('button', { name: /Copy as/ }).click()
    await page.getByRole('menuitem', { name: 'curl' }).click()
    await expect(page.getByText('Copied')).toBeVisible()
    const command = await page.evaluate(() => navigator.clipboard.readText())
    expect(command).toContain(`${gateway.admin}/apisix/admin/${kind}/${id}'`)
    await page.getByRole('button', { name: 'Delete' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill(id)
    await page.getByRole('dialog').getByRole('button', { name: 'Delete' }).click()
    await expect(page.getByRole('heading', { level: 1 })).not.toHaveText(name)
    expect((await gateway.call('GET', `/apisix/admin/${kind}/${id}`)).status).toBe(404)
    const { execFileSync } = await import('node:child_process')
    execFileSync('sh', ['-c', `${command} -sf -o /dev/null`], { env: { ...process.env, ADMIN_KEY: ADMIN } })
    const plain = ({ create_time: _, update_time: __, ...rest }: Record<string, unknown>) => rest
    expect(plain(await stored(gateway, `${kind}/${id}`))).toEqual(plain(whole))
    await gateway.call('DELETE', `/apisix/admin/${kind}/${id}`)
    // Who comes to where it was is told, and brings it back.
    await page.goto(`${gateway.admin}/ui/objects/${kind}/${encodeURIComponent(id)}`)
    await expect(page.getByText(/Deleted by admin as revision \d+/)).toBeVisible()
    await page.getByRole('button', { name: 'Restore' }).click()
    await expect(page.getByRole('heading', { level: 1, name, exact: true })).toBeVisible()
    expect(plain(await stored(gateway, `${kind}/${id}`))).toEqual(plain(whole))
    await gateway.call('DELETE', `/apisix/admin/${kind}/${id}`)
  })
}

test('who uses an object is told of groups, configs, protos, certificates and secrets', async ({ page, gateway }) => {
  const upstream = { nodes: { [gateway.origin]: 1 } }
  await gateway.call('PUT', '/apisix/admin/consumer_groups/silver', { plugins: {} })
  await gateway.call('PUT', '/apisix/admin/plugin_configs/shared', { plugins: {} })
  await gateway.call('PUT', '/apisix/admin/protos/used', { content: PROTO })
  await gateway.call('PUT', '/apisix/admin/secrets/vault/used', { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'hush' })
  await gateway.call('PUT', '/apisix/admin/consumers', { username: 'grouped', group_id: 'silver', plugins: { 'key-auth': { key: '$secret://vault/used/grouped/key' } } })
  await gateway.call('PUT', '/apisix/admin/routes/transcoding', { uri: '/transcoding', plugin_config_id: 'shared', plugins: { 'grpc-transcode': { proto_id: 'used', service: 'shop.Orders', method: 'Get' } }, upstream: { ...upstream, scheme: 'grpc' } })
  await signIn(page, gateway)
  const uses: [string, string, boolean][] = [['consumer_groups/silver', 'consumer grouped', true], ['plugin_configs/shared', 'route transcoding', true], ['protos/used', 'route transcoding', true], ['secrets/vault%2Fused', 'consumer grouped', false]]
  for (const [path, user, isKept] of uses) {
    await page.goto(`${gateway.admin}/ui/objects/${path}`)
    const places = page.getByRole('region', { name: 'Used by' })
    await expect(places.getByRole('link', { name: user })).toBeVisible()
    await page.getByRole('button', { name: 'Delete' }).click()
    await expect(page.getByRole('dialog')).toContainText(isKept ? 'It cannot be deleted' : 'will continue without it')
    await page.keyboard.press('Escape')
    await places.getByRole('link', { name: user }).click()
    await expect(page.getByRole('heading', { level: 1, name: user.split(' ')[1] as string })).toBeVisible()
  }
  // And the way there.
  await page.goto(`${gateway.admin}/ui/objects/consumers/grouped`)
  for (const used of ['consumer group silver', 'secret manager vault/used']) await expect(page.getByRole('link', { name: used })).toBeVisible()
  for (const path of ['consumers/grouped', 'routes/transcoding', 'consumer_groups/silver', 'plugin_configs/shared', 'protos/used', 'secrets/vault/used']) await gateway.call('DELETE', `/apisix/admin/${path}`)
})

test('no secret is in sight of anybody, and one that is not touched stays the same', async ({ page, gateway, context }) => {
  test.setTimeout(300_000)
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  const objects: Record<string, object> = {
    'secrets/vault/quiet': { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'hush-token' },
    'consumers/quiet': { username: 'quiet', plugins: { 'key-auth': { key: 'hush-key' } } },
    'routes/quiet': { uri: '/quiet', plugins: { csrf: { key: 'hush-csrf' } }, upstream: { nodes: { [gateway.origin]: 1 } } },
    'consumer_groups/quiet': { plugins: { csrf: { key: 'hush-group' } } },
  }
  for (const [path, value] of Object.entries(objects)) {
    await gateway.call('PUT', `/apisix/admin/${path}`, value)
    await gateway.call('PUT', `/apisix/admin/${path}`, JSON.parse(JSON.stringify(value).replace('hush-', 'hush-again-')))
  }
  const bodies: string[] = []
  page.on('response', async (response) => bodies.push(await response.text().catch(() => '')))
  const isQuiet = async (where: string) => {
    await page.waitForLoadState('networkidle', { timeout: 500 }).catch(() => {})
    const fields = await page.locator('input, textarea').evaluateAll((all) => all.map((field) => (field as HTMLInputElement).value))
    expect([await page.content(), ...fields, ...bodies].join('\n'), where).not.toContain('hush-')
  }
  for (const key of [ADMIN, VIEWER]) {
    await page.context().clearCookies()
    await page.goto('about:blank')
    await signIn(page, gateway, key)
    for (const path of Object.keys(objects)) {
      const [kind, ...rest] = path.split('/') as [string, ...string[]]
      const id = rest.join('/')
      const own = `/ui/objects/${kind}/${encodeURIComponent(id)}`
      for (const screen of [`/ui/objects/${kind}`, own, `${own}/edit`, `/ui/changes?kind=${kind}&id=${encodeURIComponent(id)}`]) {
        await page.goto(gateway.admin + screen)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await isQuiet(screen)
      }
      const { rows } = await (await gateway.call('GET', `/console/v1/changes?kind=${kind}&id=${encodeURIComponent(id)}`)).json()
      for (const { name } of rows) {
        await page.goto(`${gateway.admin}/ui/changes/${name}`)
        await expect(page.locator('.diff')).toBeVisible()
        if (key === ADMIN) {
          // What stands there now is shown where the object was changed since.
          await page.getByRole('button', { name: 'Undo' }).click()
          if (name === rows[1]?.name) {
            await page.getByRole('dialog').getByRole('button', { name: 'Undo' }).click()
            await expect(page.getByRole('dialog').getByRole('alert')).toContainText('changed again since')
          }
        }
        await isQuiet(`change ${name}`)
      }
      await page.goto(gateway.admin + own)
      for (const way of ['curl', 'JSON', 'YAML file']) {
        await page.getByRole('button', { name: /Copy as|Copied/ }).click()
        await page.getByRole('menuitem', { name: way, exact: true }).click()
        await expect(page.getByText('Copied')).toBeVisible()
        expect(await page.evaluate(() => navigator.clipboard.readText()), `${path} as ${way}`).not.toContain('hush-')
      }
    }
  }
  await page.context().clearCookies()
  await page.goto('about:blank')
  await signIn(page, gateway, ADMIN, '/ui/objects/secrets/vault%2Fquiet/edit')
  const before = await stored(gateway, 'secrets/vault/quiet')
  await page.getByLabel('Path of the secrets', { exact: true }).fill('kv/other')
  await page.keyboard.press('Control+s')
  await expect(page.locator('.diff .new')).toHaveCount(1)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Delete' })).toBeEnabled()
  await isQuiet('after saving')
  const after = await stored(gateway, 'secrets/vault/quiet')
  expect(after).toEqual({ ...before, prefix: 'kv/other', update_time: after.update_time })
  const [row] = (await (await gateway.call('GET', '/console/v1/changes?kind=secrets&id=vault%2Fquiet')).json()).rows
  expect(row.differences).toEqual([{ pointer: '/prefix', before: 'kv', after: 'kv/other' }])
  // A secret is replaced, and from then on as quiet as the one before.
  await page.getByRole('link', { name: 'Edit' }).click()
  await expect(page.getByLabel('Token', { exact: true })).toHaveValue('set; never shown')
  await page.getByRole('button', { name: 'Replace Token' }).click()
  await page.getByLabel('Token', { exact: true }).fill('hush-third')
  await expect(page.getByLabel('Token', { exact: true })).toHaveAttribute('type', 'password')
  await page.keyboard.press('Control+s')
  bodies.length = 0
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Delete' })).toBeEnabled()
  await isQuiet('after replacing')
  expect((await stored(gateway, 'secrets/vault/quiet')).token).toBe('hush-third')
  for (const path of Object.keys(objects)) await gateway.call('DELETE', `/apisix/admin/${path}`)
})

test('two editors of a secret: the second is shown the difference, and neither secret', async ({ page, gateway }) => {
  const vault = { uri: 'http://127.0.0.1:1', prefix: 'kv', token: 'hush-mine' }
  await gateway.call('PUT', '/apisix/admin/secrets/vault/two', vault)
  const bodies: string[] = []
  page.on('response', async (response) => bodies.push(await response.text().catch(() => '')))
  await signIn(page, gateway, ADMIN, '/ui/objects/secrets/vault%2Ftwo/edit')
  await page.getByLabel('Path of the secrets', { exact: true }).fill('mine')
  await gateway.call('PUT', '/apisix/admin/secrets/vault/two', { ...vault, uri: 'http://127.0.0.1:2', token: 'hush-theirs' })
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText('http://127.0.0.1:2')
  expect(await page.content()).not.toContain('hush-')
  expect(bodies.join('\n')).not.toContain('hush-')
  await page.getByRole('button', { name: 'Start over from their version' }).click()
  await expect(page.getByLabel('Address', { exact: true })).toHaveValue('http://127.0.0.1:2')
  expect((await stored(gateway, 'secrets/vault/two')).token).toBe('hush-theirs')
  await gateway.call('DELETE', '/apisix/admin/secrets/vault/two')
})

test('what is new takes the place of nothing that is there', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/upstreams/taken', { desc: 'first', nodes: { [gateway.origin]: 1 } })
  await gateway.call('PUT', '/apisix/admin/consumers', { username: 'taken', desc: 'first' })
  await signIn(page, gateway, ADMIN, '/ui/new/upstreams')
  await page.getByRole('textbox', { name: 'ID', exact: true }).fill('taken')
  await page.getByLabel('Address 1').fill('10.0.0.1')
  await reveal(page, 'Description')
  await page.getByLabel('Description', { exact: true }).fill('second')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText('this id is taken by another upstream')
  await expect(page.getByLabel('Description', { exact: true })).toHaveValue('second')
  expect((await stored(gateway, 'upstreams/taken')).desc).toBe('first')
  page.on('dialog', (dialog) => void dialog.accept())
  await page.goto(`${gateway.admin}/ui/new/consumers`)
  await page.getByLabel('Name', { exact: true }).fill('taken')
  await add(page, 'key-auth')
  await page.getByLabel('Key', { exact: true }).fill('some-key')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText('this id is taken by another consumer')
  expect((await stored(gateway, 'consumers/taken')).desc).toBe('first')
  await gateway.call('DELETE', '/apisix/admin/consumers/taken')
  await page.goto('about:blank')
})

test('a key that is pasted in several lines keeps them', async ({ page, gateway, context }) => {
  await context.grantPermissions(['clipboard-read', 'clipboard-write'])
  await signIn(page, gateway, ADMIN, '/ui/new/secrets?of=gcp&view=both')
  await page.evaluate(() => navigator.clipboard.writeText('-----BEGIN KEY-----\nabc\n-----END KEY-----\n'))
  await page.getByLabel('Private key', { exact: true }).focus()
  await page.keyboard.press('Control+v')
  const json = page.getByRole('textbox', { name: 'JSON', exact: true })
  await expect.poll(async () => JSON.parse(await json.inputValue()).auth_config.private_key).toBe('-----BEGIN KEY-----\nabc\n-----END KEY-----\n')
  page.on('dialog', (dialog) => void dialog.accept())
})
