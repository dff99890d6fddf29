/** The frame of the console: signing in, lists, explain, the policy. What one screen does by itself is tested in a file of
 * its own. */
import { ADMIN, expect, signIn, test, VIEWER } from './gateway'

test('a wrong key is refused in words, and a right one leaves no trace in the browser', async ({ page, gateway }) => {
  await page.goto(`${gateway.admin}/`)
  await page.locator('input[name=key]').fill('wrong')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await expect(page.getByRole('alert')).toContainText('no key of this gateway')
  await expect(page.locator('input[name=key]')).toBeFocused()
  await signIn(page, gateway)
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible()
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }) + document.cookie + location.href)
  expect(kept).not.toContain(ADMIN)
  const [cookie] = await page.context().cookies()
  expect(cookie).toMatchObject({ httpOnly: true, sameSite: 'Strict' })
  await page.reload()
  await expect(page.getByRole('heading', { name: 'Overview' })).toBeVisible()
})

test('one changed line is reviewed, saved, and the only difference', async ({ page, gateway }) => {
  const before = { uri: '/edit', name: 'Edit', plugins: { 'key-auth': {} }, upstream: { nodes: { [gateway.origin]: 1 } }, priority: 7 }
  await gateway.call('PUT', '/apisix/admin/routes/edit', before)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/edit/edit?view=both')
  await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
  const editor = page.getByRole('textbox', { name: 'JSON' })
  const text = await editor.inputValue()
  await editor.fill(text.replace('"priority": 7', '"priority": 9'))
  await page.keyboard.press('Control+s')
  await expect(page.locator('.diff .gone')).toHaveCount(1)
  await expect(page.locator('.diff .new')).toHaveText(/"priority": 9/)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('heading', { name: 'Edit', exact: true })).toBeVisible()
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/edit')).json()
  expect(value).toMatchObject({ ...before, priority: 9 })
})

test('who saves second is shown what changed, and overwrites nothing', async ({ page, gateway }) => {
  const route = { uri: '/twice', upstream: { nodes: { [gateway.origin]: 1 } } }
  await gateway.call('PUT', '/apisix/admin/routes/twice', route)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/twice/edit?view=both')
  const editor = page.getByRole('textbox', { name: 'JSON' })
  await editor.fill((await editor.inputValue()).replace('"/twice"', '"/mine"'))
  await gateway.call('PUT', '/apisix/admin/routes/twice', { ...route, desc: 'theirs' })
  await page.getByRole('button', { name: 'Review' }).click()
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText('This object was changed after you opened it')
  await expect(page.getByRole('alert')).toContainText('theirs')
  expect(await editor.inputValue()).toContain('"/mine"')
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/twice')).json()
  expect(value).toMatchObject({ uri: '/twice', desc: 'theirs' })
})

test('faults are told in the words of the server, and what was typed stays', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/new/routes?view=both')
  const editor = page.getByRole('textbox', { name: 'JSON' })
  await editor.fill('{"uri": 5}')
  await page.getByRole('button', { name: 'Review' }).click()
  await expect(page.getByRole('alert')).toContainText('uri')
  await expect(editor).toHaveValue('{"uri": 5}')
  await editor.fill('{\n"uri": \n')
  await expect(page.getByText(/^Line \d+:/)).toBeVisible()
  await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
  page.on('dialog', (dialog) => void dialog.accept())
})

test('explain and the data plane agree', async ({ page, gateway }) => {
  const upstream = { nodes: { [gateway.origin]: 1 } }
  await gateway.call('PUT', '/apisix/admin/routes/posts', { uri: '/agree/*', methods: ['POST'], name: 'Posts', upstream })
  await signIn(page, gateway, ADMIN, `/ui/explain?url=${encodeURIComponent(`${gateway.plane}/agree/1`)}`)
  await expect(page.getByRole('heading', { name: 'No route matches' })).toBeVisible()
  await expect(page.getByText("the method is not among the route's: POST")).toBeVisible()
  expect((await fetch(`${gateway.plane}/agree/1`)).status).toBe(404)
  await page.getByLabel('URL').fill(`curl -X POST ${gateway.plane}/agree/1`)
  await page.getByRole('button', { name: 'Explain', exact: true }).click()
  await expect(page.getByRole('heading', { name: 'Route Posts (posts) matches' })).toBeVisible()
  expect((await fetch(`${gateway.plane}/agree/1`, { method: 'POST' })).status).toBe(200)
})

test('a failure shows within seconds, with its cause, and never its query', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/down', { uri: '/down', upstream: { nodes: { '127.0.0.1:1': 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/requests')
  expect((await fetch(`${gateway.plane}/down?token=s3cret-value`)).status).toBe(502)
  await page.getByRole('button', { name: /GET .*\/down/ }).first().click()
  const detail = page.getByRole('dialog')
  await expect(detail).toContainText('upstream_connect_failed')
  await expect(detail).toContainText('What to do')
  await expect(detail).toContainText('127.0.0.1:1')
  expect(await page.content()).not.toContain('s3cret-value')
})

test('a viewer reads everything and is told why nothing can be written', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/seen', { uri: '/seen', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, VIEWER, '/ui/objects/routes/seen')
  const remove = page.getByRole('button', { name: 'Delete' })
  await expect(remove).toBeDisabled()
  await expect(remove).toHaveAttribute('title', /viewer/)
  const status = await page.evaluate(async () =>
    (await fetch('/apisix/admin/routes/seen', { method: 'DELETE', headers: { 'X-Tollhouse-Console': sessionStorage.getItem('tollhouse-proof')! } })).status)
  expect(status).toBe(401)
})

test('names full of markup are text', async ({ page, gateway }) => {
  const name = '<img src=x onerror=alert(1)><script>alert(2)</script>'
  await gateway.call('PUT', '/apisix/admin/routes/markup', { uri: '/markup', name, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes')
  await expect(page.getByText(name)).toBeVisible()
  await page.getByText(name).click()
  await expect(page.getByRole('heading', { level: 1 })).toHaveText(name)
})

test('the palette finds an object by keyboard alone', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/upstreams/palette', { name: 'Find me', nodes: { [gateway.origin]: 1 } })
  await signIn(page, gateway)
  await page.keyboard.press('Control+k')
  await page.keyboard.type('find me')
  await expect(page.getByRole('option', { name: /Find me/ })).toBeVisible()
  await page.keyboard.press('Enter')
  await expect(page.getByRole('heading', { name: 'Find me' })).toBeVisible()
})

test('isolating the last healthy instance asks for the name of the service', async ({ page, gateway }) => {
  await gateway.call('POST', '/registry/v1/instances', { service: 'pay', host: '10.0.0.1', port: 80, healthy: true })
  await signIn(page, gateway, ADMIN, '/ui/registry/default/pay')
  await page.getByRole('button', { name: 'Isolate' }).click()
  const confirm = page.getByRole('dialog').getByRole('button', { name: 'Isolate' })
  await expect(confirm).toBeDisabled()
  await page.getByRole('dialog').getByRole('textbox').fill('pay')
  await confirm.click()
  await expect(page.getByText('isolated', { exact: true })).toBeVisible()
})

test('one field of the form is one line of the review, and the store differs in exactly that', async ({ page, gateway }) => {
  const before = {
    uri: '/form', plugins: { 'key-auth': {}, 'limit-count': { count: '$http_x_limit', time_window: 60 } },
    upstream: { nodes: { [gateway.origin]: 1 }, timeout: { connect: 1.5, send: 6, read: 6 } }, labels: { a: 'b' }, priority: 0,
  }
  await gateway.call('PUT', '/apisix/admin/routes/form', before)
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/form/edit')
  await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
  await expect(page.getByLabel('Requests allowed', { exact: true })).toHaveValue('$http_x_limit')
  await page.getByLabel('Per', { exact: true }).fill('30')
  await expect(page.getByText('Valid', { exact: true })).toBeVisible()
  await page.keyboard.press('Control+s')
  await expect(page.locator('.diff .gone')).toHaveText(/"time_window": 60/)
  await expect(page.locator('.diff .new')).toHaveText(/"time_window": 30/)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('button', { name: 'Delete' })).toBeVisible()
  const { value } = await (await gateway.call('GET', '/apisix/admin/routes/form')).json()
  const { id: _, create_time: __, update_time: ___, ...after } = value
  expect(after).toEqual({ ...before, plugins: { ...before.plugins, 'limit-count': { count: '$http_x_limit', time_window: 30 } } })
})

test('form and text follow each other, undo crosses both, and broken text dims the form', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/views', { uri: '/views', upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/views/edit?view=both')
  const text = page.getByRole('textbox', { name: 'JSON' })
  const before = await text.inputValue()
  await page.getByLabel('Path', { exact: true }).fill('/from-form')
  await expect(text).toHaveValue(/"uri": "\/from-form"/)
  await text.fill((await text.inputValue()).replace('/from-form', '/from-text'))
  await expect(page.getByLabel('Path', { exact: true })).toHaveValue('/from-text')
  await page.keyboard.press('Control+z')
  await expect(page.getByLabel('Path', { exact: true })).toHaveValue('/from-form')
  await page.keyboard.press('Control+z')
  await expect(text).toHaveValue(before)
  await text.fill('{"uri": ')
  await expect(page.getByText('The form shows the last text that could be read.')).toBeVisible()
  await expect(page.getByLabel('Path', { exact: true })).toBeDisabled()
  page.on('dialog', (dialog) => void dialog.accept())
})

test('all faults stand at their fields in the words of the gateway, before saving', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/routes/faults', { uri: '/faults', plugins: { 'limit-count': { count: 5, time_window: 60 } }, upstream: { nodes: { [gateway.origin]: 1 } } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/faults/edit')
  const status = page.getByLabel('Status of refused requests', { exact: true })
  const service = page.getByRole('combobox', { name: 'Service', exact: true })
  // Nothing is red before it was typed.
  await expect(page.locator('[aria-invalid=true], .field-error')).toHaveCount(0)
  await page.getByRole('radio', { name: 'A service' }).check()
  await service.fill('nowhere')
  await status.fill('7')
  await expect(status).toHaveAttribute('aria-invalid', 'true')
  await status.fill('429')
  await expect(status).not.toHaveAttribute('aria-invalid', 'true')
  await expect(service).toHaveAttribute('aria-invalid', 'true')
  // All that is wrong is told together when it is to be saved.
  await page.getByRole('button', { name: 'Review' }).click()
  await expect(page.getByRole('alert')).toContainText('/service_id')
  page.on('dialog', (dialog) => void dialog.accept())
})

test('every plugin has a form, and nodes stay as they are written', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  const all = (await (await gateway.call('GET', '/apisix/admin/plugins?all=true')).json()) as Record<string, unknown>
  // Fields that stay text, since a schema says nothing of what is inside.
  const text = new Set(['workflow', 'fault-injection', 'traffic-split', 'request-validation', 'mocking', 'http-logger', 'file-logger', 'skywalking-logger', 'serverless-pre-function', 'serverless-post-function'])
  await gateway.call('PUT', '/apisix/admin/routes/all', { uri: '/all', upstream: { nodes: [{ host: '127.0.0.1', port: 1, weight: 1, metadata: { zone: 'a' } }] } })
  await signIn(page, gateway, ADMIN, '/ui/objects/routes/all/edit?view=both')
  await page.getByLabel('Weight 1').fill('7')
  const json = page.getByRole('textbox', { name: 'JSON', exact: true })
  await expect.poll(async () => JSON.parse(await json.inputValue()).upstream.nodes).toEqual([{ host: '127.0.0.1', port: 1, weight: 7, metadata: { zone: 'a' } }])
  for (const name of Object.keys(all)) {
    await json.fill(JSON.stringify({ uri: '/all', plugins: { [name]: {} } }))
    await expect(page.locator(`[data-plugin="${name}"]`)).toBeVisible()
    if (!text.has(name)) await expect(page.locator('[data-raw]'), name).toHaveCount(0)
  }
  page.on('dialog', (dialog) => void dialog.accept())
})
