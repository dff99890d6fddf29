/** Lists of a hundred thousand routes. How long they take is measured elsewhere, on a machine that does nothing else. */
import { type CDPSession } from '@playwright/test'
import { ADMIN, expect, manyRoutes, signIn, test, withFile } from './gateway'

/** Routes of the list: enough for a hundred pages. What a hundred thousand cost is among the figures. */
const ROUTES = 5000

/** Polls of an overview: those of 8 hours are 28,800. */
const POLLS = Number(process.env.TOLLHOUSE_POLLS ?? 10_000)

async function heap(devtools: CDPSession): Promise<number> {
  for (let round = 0; round < 3; round += 1) await devtools.send('HeapProfiler.collectGarbage')
  const { usedSize } = (await devtools.send('Runtime.getHeapUsage')) as { usedSize: number }
  return usedSize
}

test('a long list opens, ends and is searched, and few rows of it are in the page', async ({ page }) => {
  test.setTimeout(600_000)
  await withFile(manyRoutes(ROUTES), async (gateway) => {
    await expect.poll(async () => (await (await gateway.call('GET', '/console/v1/objects/routes?page_size=1')).json()).total, { timeout: 300_000 }).toBe(ROUTES)
    await signIn(page, gateway, ADMIN, '/ui/objects/routes')
    await expect(page.getByRole('row')).toHaveCount(51)
    await page.getByRole('button', { name: 'Last' }).click()
    await expect(page.getByRole('button', { name: 'Last' })).toBeDisabled()
    await expect(page.getByText(`${(ROUTES - 49).toLocaleString('en')}–${ROUTES.toLocaleString('en')} of ${ROUTES.toLocaleString('en')}`)).toBeVisible()
    await expect(page.getByRole('row')).toHaveCount(51)
    await page.locator('[data-filter]').fill(`route ${ROUTES - 289}`)
    await expect(page.getByRole('row')).toHaveCount(2)
    await expect(page.getByRole('link', { name: new RegExp(`route ${ROUTES - 289}$`) })).toBeVisible()
    // What is typed into the address as a number is searched for as well.
    await page.goto(`${gateway.admin}/ui/objects/routes?q=${ROUTES - 289}`)
    await expect(page.locator('[data-filter]')).toHaveValue(String(ROUTES - 289))
    await expect(page.getByRole('row')).toHaveCount(2)
    await page.goto('about:blank')
  })
})

test('an overview that is left open over night keeps its memory', async ({ page, gateway }) => {
  test.setTimeout(1_200_000)
  // Once without haste: a browser that opens a page for the first time takes long on a busy machine.
  await page.goto(`${gateway.admin}/ui/`)
  await page.locator('input[name=key]').waitFor({ timeout: 120_000 })
  const devtools = await page.context().newCDPSession(page)
  // Time flies: a second is two milliseconds, and each brings a new second of traffic, made of the shape of a real one.
  await page.addInitScript(() => {
    const real = { timeout: setTimeout.bind(window), interval: setInterval.bind(window), fetch: fetch.bind(window) }
    const quick = (ms?: number) => ((ms ?? 0) >= 1000 ? (ms as number) / 500 : ms)
    Object.assign(window, {
      polls: 0,
      setTimeout: (call: () => void, ms?: number, ...rest: unknown[]) => real.timeout(call, quick(ms), ...rest),
      setInterval: (call: () => void, ms?: number, ...rest: unknown[]) => real.interval(call, quick(ms), ...rest),
      fetch: async (input: string, init?: RequestInit) => {
        if (!input.startsWith('/console/v1/live?')) return real.fetch(input, init)
        const state = window as unknown as { polls: number }
        state.polls += 1
        const second = { at: 1_800_000_000 + state.polls, length_ms: 1000, requests: state.polls % 977, classes: { '2xx': state.polls % 977, '5xx': state.polls % 3 }, failures: { [`code_${state.polls % 9}`]: 1 }, p50_ms: 3, p90_ms: 9, p99_ms: state.polls % 50, connections: state.polls % 40, received_bytes: 1, sent_bytes: 2, revision: Math.floor(state.polls / 100) }
        return new Response(JSON.stringify({ now: second.at, kept: 900, seconds: [second] }))
      },
    })
  })
  await signIn(page, gateway)
  const polls = () => page.evaluate(() => (window as unknown as { polls: number }).polls)
  // What is kept is full, and everything that is compiled once has been.
  await expect.poll(polls, { timeout: 600_000 }).toBeGreaterThan(1500)
  const before = await heap(devtools)
  await expect.poll(polls, { timeout: 1_100_000 }).toBeGreaterThan(1500 + POLLS)
  const after = await heap(devtools)
  console.log('measured', JSON.stringify({ polls: await polls(), before, after }))
  expect(after).toBeLessThan(before * 1.2)
})
