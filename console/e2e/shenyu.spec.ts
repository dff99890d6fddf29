/** ShenYu's objects by the console's screens. */
import { ADMIN, expect, signIn, test, VIEWER } from './gateway'

const HANDLE = { loadBalance: 'random', retry: 3, timeout: 3000 }

/** A selector of `divide` with a rule. */
async function pair(gateway: { call: (method: string, path: string, body?: unknown) => Promise<Response> }, name: string) {
  const condition = [{ paramType: 'uri', operator: 'startsWith', paramName: '/', paramValue: `/${name}/` }]
  const selector = (await (await gateway.call('POST', '/console/v1/shenyu/selector', { name, pluginId: '5', type: 1, matchMode: 0, handle: '[]', selectorConditions: condition })).json()).data as string
  await gateway.call('POST', '/console/v1/shenyu/rule', { name: `${name} rule`, selectorId: selector, handle: JSON.stringify(HANDLE), ruleConditions: condition })
  const rules = (await (await gateway.call('GET', `/console/v1/shenyu/rule?selectorId=${selector}`)).json()).data.dataList as { id: string }[]
  return { selector, rule: rules[0]?.id as string }
}

test('a selector is made by its form, then a rule of it, and requests go where they say', async ({ page, gateway }) => {
  await signIn(page, gateway, ADMIN, '/ui/shenyu/selector')
  await page.getByLabel('Plugin').selectOption('divide')
  await page.getByRole('link', { name: 'New' }).click()
  await page.getByLabel('Name', { exact: true }).fill('by form')
  await page.getByLabel('Value', { exact: true }).fill('/by-form/')
  await page.getByRole('button', { name: 'Add to Nodes' }).click()
  await page.getByLabel('Address', { exact: true }).fill(gateway.origin)
  await page.getByLabel('Weight', { exact: true }).fill('50')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await page.getByRole('link', { name: 'by form' }).click()
  await page.getByRole('link', { name: 'New rule' }).click()
  await page.getByLabel('Name', { exact: true }).fill('orders')
  await page.getByLabel('Value', { exact: true }).fill('/by-form/')
  await page.getByLabel('Timeout', { exact: true }).fill('4000')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'by form', exact: true })).toBeVisible()
  await expect(page.getByRole('link', { name: 'orders' })).toBeVisible()
  await expect.poll(async () => (await fetch(`${gateway.plane}/by-form/1`)).text()).toBe('hello')
})

test('one field of a rule is one line of the review, and its settings are the only thing that changes', async ({ page, gateway }) => {
  const { rule } = await pair(gateway, 'one-field')
  const before = (await (await gateway.call('GET', `/console/v1/shenyu/rule/${rule}`)).json()).data
  await signIn(page, gateway, ADMIN, `/ui/shenyu/rule/${rule}`)
  await expect(page.getByRole('button', { name: 'Review' })).toBeDisabled()
  await page.getByLabel('Retries', { exact: true }).fill('1')
  await page.keyboard.press('Control+s')
  await expect(page.locator('.diff .gone')).toHaveText(/"retry": 3/)
  await expect(page.locator('.diff .new')).toHaveText(/"retry": 1/)
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'one-field', exact: true })).toBeVisible()
  const after = (await (await gateway.call('GET', `/console/v1/shenyu/rule/${rule}`)).json()).data
  expect({ ...after, dateUpdated: '' }).toEqual({ ...before, dateUpdated: '', handle: JSON.stringify({ ...HANDLE, retry: 1 }) })
})

test('what is wrong stands at its field in the words of the gateway, and what was typed stays', async ({ page, gateway }) => {
  const { rule } = await pair(gateway, 'faulty')
  await signIn(page, gateway, ADMIN, `/ui/shenyu/rule/${rule}`)
  const selector = page.getByRole('combobox', { name: 'Selector', exact: true })
  await selector.fill('nowhere')
  await page.keyboard.press('Control+s')
  await page.getByRole('button', { name: 'Save' }).click()
  await expect(page.getByRole('alert')).toContainText('there is no such selector')
  await expect(selector).toHaveAttribute('aria-invalid', 'true')
  await expect(selector).toHaveValue('nowhere')
  page.on('dialog', (dialog) => void dialog.accept())
})

test('a change of a rule stands among all changes with its author, and no secret is in sight', async ({ page, gateway }) => {
  await gateway.call('POST', '/console/v1/shenyu/appAuth', { appKey: 'KEY1', appSecret: 'hush-hush', userId: 'partner' })
  const { rule } = await pair(gateway, 'noted')
  await gateway.call('PUT', `/console/v1/shenyu/rule/${rule}`, { handle: JSON.stringify({ ...HANDLE, timeout: 9000 }) })
  await signIn(page, gateway, ADMIN, '/ui/changes?kind=shenyu')
  const row = page.getByRole('row', { name: /rule\// }).filter({ hasText: 'handle' }).first()
  await expect(row).toContainText('admin')
  await row.getByRole('link').first().click()
  await expect(page.locator('.diff .new').first()).toContainText('9000')
  await expect(page.getByRole('button', { name: 'Undo' })).toBeDisabled()
  await page.goto(`${gateway.admin}/ui/changes?kind=shenyu&id=${encodeURIComponent('appAuth/KEY1')}`)
  await page.getByRole('row').nth(1).getByRole('link').first().click()
  await expect(page.locator('.diff')).toContainText('appSecret')
  expect(await page.content()).not.toContain('hush-hush')
})

test('a viewer reads what ShenYu has, without secrets, and writes nothing', async ({ page, gateway }) => {
  await gateway.call('POST', '/console/v1/shenyu/appAuth', { appKey: 'KEY2', appSecret: 'not for you' })
  const { data } = (await (await gateway.call('GET', '/console/v1/shenyu/appAuth?appKey=KEY2')).json())
  const id = data.dataList[0].id as string
  await signIn(page, gateway, VIEWER, `/ui/shenyu/appAuth/${id}`)
  await expect(page.getByRole('textbox', { name: 'Key', exact: true })).toHaveValue('KEY2')
  expect(await page.content()).not.toContain('not for you')
  await expect(page.getByRole('button', { name: 'Delete' })).toBeDisabled()
  const write = (method: string, path: string) => page.evaluate(async ([verb, where]) =>
    (await fetch(where as string, { method: verb, body: verb === 'GET' ? undefined : '{}', headers: { 'X-Tollhouse-Console': sessionStorage.getItem('tollhouse-proof')! } })).status, [method, path])
  expect(await write('DELETE', `/console/v1/shenyu/appAuth/${id}`)).toBe(401)
  expect(await write('PUT', `/console/v1/shenyu/appAuth/${id}`)).toBe(401)
  expect(await write('GET', '/console/v1/shenyu/dashboardUser')).toBe(404)
})

test('every plugin that reads settings has a form of them, without text for people to spell', async ({ page, gateway }) => {
  test.setTimeout(240_000)
  const forms = (await (await gateway.call('GET', '/console/v1/shenyu/forms')).json()) as { plugins: Record<string, { rule?: object }> }
  const all = (await (await gateway.call('GET', '/console/v1/shenyu/plugin?pageSize=500')).json()).data.dataList as { id: string; name: string }[]
  await signIn(page, gateway)
  for (const { id, name } of all.filter((plugin) => forms.plugins[plugin.name]?.rule)) {
    const selector = (await (await gateway.call('POST', '/console/v1/shenyu/selector', { name, pluginId: id })).json()).data as string
    await page.goto(`${gateway.admin}/ui/shenyu/rule/+?in=${encodeURIComponent(JSON.stringify(selector))}&view=form`)
    await expect(page.getByRole('region', { name: 'Plugin settings' })).toBeVisible()
    await expect(page.locator('[data-raw]'), name).toHaveCount(0)
  }
  page.on('dialog', (dialog) => void dialog.accept())
})
