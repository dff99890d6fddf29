/** A recorded task: an instance is taken out of traffic by somebody who has read no manual. Only texts that stand on the screen are
 * used; clicks and time are told. Each step fails where the console has no such text. */
import type { Locator } from '@playwright/test'
import { expect, signIn, test, withSettings } from '../e2e/gateway'

test('an instance is isolated by visible labels alone', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    for (const port of [1, 2, 3]) await gateway.call('POST', '/registry/v1/instances', { service: 'orders', host: '10.7.0.1', port, healthy: true, ttl_seconds: 60 })
    await signIn(page, gateway)
    let clicks = 0
    const press = async (what: Locator) => {
      clicks += 1
      await what.click()
    }
    const began = performance.now()
    await press(page.getByRole('link', { name: 'Registered services' }))
    await press(page.getByRole('link', { name: 'orders', exact: true }))
    await press(page.getByRole('row', { name: /10\.7\.0\.1:2/ }).getByRole('button', { name: 'Isolate' }))
    const asked = (await page.getByRole('dialog').textContent()) ?? ''
    await press(page.getByRole('dialog').getByRole('button', { name: 'Isolate' }))
    await expect(page.getByRole('row', { name: /10\.7\.0\.1:2/ })).toContainText('isolated')
    console.log(`figure: an instance is isolated ${JSON.stringify({ clicks, ms: Math.round(performance.now() - began), asked })}`)
  })
})

test('a service is made, an instance registered and isolated, by visible labels alone', async ({ page }) => {
  await withSettings({}, async (gateway) => {
    await signIn(page, gateway)
    let clicks = 0
    const press = async (what: Locator) => {
      clicks += 1
      await what.click({ timeout: 20_000 })
    }
    const began = performance.now()
    const dialog = page.getByRole('dialog')
    await press(page.getByRole('link', { name: 'Registered services' }))
    await press(page.getByRole('button', { name: 'New service' }))
    await dialog.getByLabel('Name', { exact: false }).last().fill('orders')
    await press(dialog.getByRole('button', { name: 'Create' }))
    await press(page.getByRole('button', { name: 'Register an instance' }).first())
    await dialog.getByLabel('Host').fill('10.7.0.1')
    await dialog.getByLabel('Port').fill('1')
    await press(dialog.getByRole('button', { name: 'Save' }))
    await press(page.getByRole('row', { name: /10\.7\.0\.1:1/ }).getByRole('button', { name: 'Isolate' }))
    await dialog.getByRole('textbox').fill('orders')
    await press(dialog.getByRole('button', { name: 'Isolate' }))
    await expect(page.getByRole('row', { name: /10\.7\.0\.1:1/ })).toContainText('isolated')
    console.log(`figure: a service is made, an instance isolated ${JSON.stringify({ clicks, ms: Math.round(performance.now() - began) })}`)
  })
})
