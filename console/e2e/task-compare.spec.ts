/** A task of somebody who chooses, done by what is written on the page alone: what does a plugin cost? Two measurements of different addresses, laid over each other. */
import { ADMIN, expect, signIn, test } from './gateway'

test('a route with a plugin and one without are measured and compared in eight clicks', async ({ page, gateway }) => {
  test.setTimeout(300_000)
  const upstream = { nodes: { [gateway.origin]: 1 } }
  await gateway.call('PUT', '/apisix/admin/routes/plain', { uri: '/plain', upstream })
  await gateway.call('PUT', '/apisix/admin/routes/counted', { uri: '/counted', upstream, plugins: { 'limit-count': { count: 1_000_000, time_window: 60, key: 'remote_addr' } } })
  await signIn(page, gateway, ADMIN)
  let clicks = 0
  const click = async (locator: ReturnType<typeof page.getByRole>) => {
    await locator.click()
    clicks += 1
  }
  const began = Date.now()
  await click(page.getByRole('link', { name: 'Load generator', exact: true }).first())
  for (const [name, path, threshold] of [['without', 'plain', 'failure_rate < 1%'], ['with', 'counted', 'p99 < 1ns']] as const) {
    await page.getByLabel('URL').fill(`${gateway.plane}/${path}`)
    await page.getByLabel('Name').fill(name)
    await page.getByLabel('Connections').fill('2')
    await page.getByLabel('Seconds each').fill('1')
    await page.getByLabel('Repetitions').fill('1')
    await page.getByLabel('Thresholds').fill(threshold)
    await click(page.getByRole('button', { name: 'Start' }))
    await expect(page.getByRole('heading', { level: 1, name })).toBeVisible()
    await expect(page.getByText('done', { exact: true })).toBeVisible({ timeout: 60_000 })
    await click(page.getByRole('main').getByRole('link', { name: 'Load generator', exact: true }))
  }
  const row = (name: string) => page.getByRole('row').filter({ has: page.getByRole('link', { name, exact: true }) })
  for (const name of ['without', 'with']) {
    await expect(row(name)).toContainText(/\d\/s.*ms/)
    await click(row(name).getByRole('checkbox'))
  }
  await expect(row('without')).toContainText('1 of 1 met')
  await expect(row('with')).toContainText('0 of 1 met')
  await click(page.getByRole('button', { name: 'Compare' }))
  await expect(page.getByText('Different targets were measured')).toBeVisible()
  await expect(page.getByText('Fewer than three repetitions show no variance')).toBeVisible()
  await expect(row('with')).toContainText(/[+−]\d+(\.\d)? %/)
  await expect(page.getByRole('img', { name: /Time within which a share/ })).toBeVisible()
  await expect(page.getByRole('img', { name: /Requests a second over the course/ })).toBeVisible()
  console.log('measured', JSON.stringify({ task: 'compare two benches', clicks, 'ms in the browser': Date.now() - began }))
  expect(clicks).toBe(8)
  // The text of the load generator says the same.
  await page.getByText('Comparison as text').click()
  await expect(page.locator('pre')).toContainText('Different things were measured')
  // Once more, with the same plan, by one button.
  await page.goBack()
  await row('without').getByRole('button', { name: /Repeat/ }).click()
  await expect(page.getByRole('heading', { level: 1, name: 'without' })).toBeVisible()
  await expect(page.getByText('failure_rate < 1%').first()).toBeVisible({ timeout: 60_000 })
})
