/** axe on every screen: wide and on a phone, by day and by night, filled and empty. Screens come from the one list of them. */
import type { Page } from '@playwright/test'
import { faults, faultsOfColours, tooWide } from './axe'
import { expect, signIn, test, withSettings } from './gateway'
import { everyScreen, open, plainScreens } from './screens'

// Each walk has a gateway of its own.
test.describe.configure({ mode: 'parallel' })

const SHAPES = { wide: { width: 1280, height: 860 }, phone: { width: 390, height: 844 } }

/** The least width that texts have to fit: that of 1280 pixels, enlarged four times. */
const NARROWEST = { width: 320, height: 844 }

/** Faults of an open screen; by night only colours are different. */
async function faultsOf(page: Page, address: string): Promise<string[]> {
  const found: string[] = []
  const tell = (shape: string, all: string[]) => found.push(...all.map((fault) => `${address}, ${shape}: ${fault}`))
  await page.emulateMedia({ colorScheme: 'light', reducedMotion: 'reduce' })
  tell('by day', await faults(page))
  await page.emulateMedia({ colorScheme: 'dark', reducedMotion: 'reduce' })
  tell('by night', await faultsOfColours(page))
  return found
}

/** What a screen may not be on a phone, besides. */
async function cutOff(page: Page, address: string): Promise<string[]> {
  await page.setViewportSize(NARROWEST)
  const wide = await tooWide(page)
  await page.setViewportSize(SHAPES.phone)
  return wide > 0 ? [`${address} is ${wide} px too wide for ${NARROWEST.width}`] : []
}

for (const [name, size] of Object.entries(SHAPES)) {
  test(`axe finds nothing on any screen, ${name}`, async ({ page, gateway }) => {
    test.setTimeout(2_400_000)
    const screens = await everyScreen(gateway)
    await page.setViewportSize(size)
    await signIn(page, gateway)
    const found: string[] = []
    for (const address of screens) {
      await open(page, gateway.admin + address)
      found.push(...(await faultsOf(page, address)))
      if (name === 'phone') found.push(...(await cutOff(page, address)))
    }
    page.on('dialog', (dialog) => void dialog.accept())
    expect(found).toEqual([])
  })
}

test('axe finds nothing on any screen of an empty gateway', async ({ page }) => {
  test.setTimeout(600_000)
  await withSettings({}, async (gateway) => {
    await signIn(page, gateway)
    const found: string[] = []
    for (const address of plainScreens()) {
      await page.setViewportSize(SHAPES.wide)
      await open(page, gateway.admin + address)
      found.push(...(await faultsOf(page, address)))
      await page.setViewportSize(SHAPES.phone)
      found.push(...(await faultsOf(page, `${address} on a phone`)), ...(await cutOff(page, address)))
    }
    expect(found).toEqual([])
    await page.goto('about:blank')
  })
})
