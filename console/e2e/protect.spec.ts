/** Keys, cookies, roles and secrets, as a browser meets them. */
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chromium, type Page } from '@playwright/test'
import { ADMIN, expect, program, signIn, test, VIEWER, withFresh, withSettings, withUpgrade } from './gateway'

/** Pages of another website, on a port that the kernel picks. */
async function withWebsite(use: (port: number) => Promise<void>) {
  const server = createServer((_, response) => response.setHeader('Content-Type', 'text/html').end('<title>another website</title>'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await use((server.address() as AddressInfo).port)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

/** What scripts of a page come to know of an answer: its text, or that there is none for them. */
const ask = (page: Page, url: string, init: RequestInit = {}) =>
  page.evaluate(async ([where, how]) => {
    try {
      const answer = await fetch(where as string, { credentials: 'include', ...(how as RequestInit) })
      return answer.type === 'opaque' ? 'opaque' : `${answer.status} ${await answer.text()}`
    } catch {
      return 'refused'
    }
  }, [url, init] as const)

test('after five wrong keys the sixth waits, and a right key is let in', async ({ page }) => {
  await withFresh(process.env, async (gateway) => {
    await page.goto(`${gateway.admin}/ui/`)
    const field = page.locator('input[name=key]')
    const answer = async (key: string) => {
      await field.fill(key)
      const answered = page.waitForResponse((response) => response.url().endsWith('/login') && response.request().method() === 'POST')
      await page.getByRole('button', { name: 'Sign in' }).click()
      return (await answered).status()
    }
    for (let count = 1; count <= 5; count += 1) expect(await answer(`wrong-${count}`)).toBe(401)
    // The wait begins with one second and doubles, so that a slow browser meets a later one.
    await expect.poll(() => answer('wrong')).toBe(429)
    await expect(page.getByRole('alert')).toContainText('too many wrong keys from this address; wait a minute')
    await expect(field).toBeFocused()
    expect(await answer(ADMIN)).toBe(200)
    await page.goto('about:blank')
  })
})

test('an upgrade signs nobody out, and offers the newer page', async ({ page, violations }) => {
  test.setTimeout(240_000)
  await withUpgrade(async (gateway) => {
    await gateway.call('PUT', '/apisix/admin/routes/typed', { uri: '/typed', upstream: { nodes: { '127.0.0.1:1': 1 } } })
    await signIn(page, gateway, ADMIN, '/ui/objects/routes/typed/edit?view=json')
    const editor = page.getByRole('textbox', { name: 'JSON' })
    await editor.fill((await editor.inputValue()).replace('"/typed"', '"/changed"'))
    const { build } = await (await gateway.call('GET', '/console/v1/login')).json()
    // The same program with another page in it: its build has another name.
    const newer = 'f'.repeat(build.length)
    const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
    const binary = join(folder, 'tollhouse')
    const bytes = readFileSync(program)
    for (let at = bytes.indexOf(build); at >= 0; at = bytes.indexOf(build, at)) bytes.write(newer, at)
    writeFileSync(binary, bytes)
    chmodSync(binary, 0o755)
    await gateway.upgrade(binary)
    await expect.poll(async () => (await (await gateway.call('GET', '/console/v1/login')).json()).build).toBe(newer)
    const reload = page.getByRole('button', { name: 'Reload' })
    await expect(reload).toBeVisible({ timeout: 90_000 })
    // Nothing that was typed is lost, and the cookie of the predecessor counts.
    await expect(editor).toHaveValue(/"\/changed"/)
    await expect(page.locator('input[name=key]')).toHaveCount(0)
    page.on('dialog', (dialog) => void dialog.accept())
    await reload.click()
    await expect(reload).toHaveCount(0)
    await expect(page.getByRole('textbox', { name: 'JSON' })).toHaveValue(/"\/typed"/)
    await page.goto('about:blank')
    rmSync(folder, { recursive: true })
    expect(violations).toEqual([])
  })
})

test('a credential is shown once, works with the command beside it, and is found nowhere later', async ({ page, gateway }) => {
  await gateway.call('PUT', '/apisix/admin/consumers', { username: 'partner' })
  await gateway.call('PUT', '/apisix/admin/routes/keyed', { uri: '/keyed/*', host: 'keyed.example.com', plugins: { 'key-auth': { header: 'x-partner-key' } }, upstream: { nodes: { [gateway.origin]: 1 } } })
  const routes = (await (await gateway.call('GET', '/console/v1/objects/routes?q=plugin:key-auth')).json()).rows as { id: string }[]
  for (const { id } of routes) if (id !== 'keyed') await gateway.call('DELETE', `/apisix/admin/routes/${id}`)
  const bodies: string[] = []
  page.on('response', async (response) => bodies.push(await response.text().catch(() => '')))
  await signIn(page, gateway, ADMIN, '/ui/objects/consumers/partner')
  await page.getByRole('button', { name: 'Add a credential' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Id').fill('first')
  await dialog.getByRole('button', { name: 'Save' }).click()
  const key = await dialog.getByRole('textbox', { name: 'key', exact: true }).inputValue()
  expect(key.length).toBeGreaterThan(30)
  const command = dialog.locator('[data-try]')
  await expect(command).toContainText(key)
  // The command as a shell runs it; meanwhile this process answers for the node.
  const status = async () => (await promisify(execFile)('sh', ['-c', `${await command.textContent()} -s -o /dev/null -w '%{http_code}'`])).stdout
  await expect.poll(status).toBe('200')
  bodies.length = 0
  await dialog.getByRole('button', { name: 'I have copied it' }).click()
  await expect(page.getByRole('row', { name: /first key-auth/ })).toBeVisible()
  for (const path of ['/ui/objects/consumers/partner', '/ui/objects/consumers', '/ui/changes?kind=consumers', '/ui/requests', '/ui/settings?tab=log']) {
    await page.goto(gateway.admin + path)
    await page.getByRole('heading', { level: 1 }).waitFor()
    await page.waitForLoadState('networkidle', { timeout: 2000 }).catch(() => {})
    expect(await page.content()).not.toContain(key)
  }
  await page.goto(`${gateway.admin}/ui/changes?kind=consumers`)
  await page.getByRole('row', { name: /credentials\/first/ }).getByRole('link').first().click()
  await expect(page.locator('.diff')).toContainText('key-auth')
  expect(await page.content()).not.toContain(key)
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage, ...sessionStorage }))).not.toContain(key)
  expect(bodies.join('\n')).not.toContain(key)
  // An id that is there is not written over, and what is deleted no longer counts.
  await page.goto(`${gateway.admin}/ui/objects/consumers/partner`)
  await page.getByRole('button', { name: 'Add a credential' }).click()
  await dialog.getByLabel('Id').fill('first')
  await expect(dialog.getByText('A credential with this ID exists already.')).toBeVisible()
  await expect(dialog.getByRole('button', { name: 'Save' })).toBeDisabled()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  await page.getByRole('button', { name: 'Delete first' }).click()
  await dialog.getByRole('button', { name: 'Delete' }).click()
  await expect(page.getByText('No credentials. Keys of the consumer')).toBeVisible()
  await expect.poll(async () => (await fetch(`${gateway.plane}/keyed/x`, { headers: { Host: 'keyed.example.com', 'x-partner-key': key } })).status).not.toBe(200)
})

for (const keyRequired of [true, false]) {
  test(`another website reads nothing and writes nothing, ${keyRequired ? 'with' : 'without'} a check of keys`, async ({ page }) => {
    await withSettings({ admin: { key: ADMIN, viewer_key: VIEWER, key_required: keyRequired } }, async (gateway) => {
      await gateway.call('PUT', '/apisix/admin/routes/mine', { uri: '/mine', desc: 'not for others', upstream: { nodes: { '127.0.0.1:1': 1 } } })
      if (keyRequired) await signIn(page, gateway)
      await withWebsite(async (port) => {
        // The same host on another port gets the cookie; another name of the same machine does not even get that.
        for (const site of [`http://127.0.0.1:${port}/`, `http://localhost:${port}/`]) {
          await page.goto(site)
          const route = `${gateway.admin}/apisix/admin/routes/mine`
          const marked = { headers: { 'X-Tollhouse-Console': '1' } }
          for (const url of [route, `${gateway.admin}/console/v1/overview`, `${gateway.admin}/console/v1/login`, `${gateway.admin}/registry/v1/services`]) {
            for (const how of [{}, marked]) expect(await ask(page, url, how), `${site} ${url}`).not.toMatch(/not for others|revision|"mode":"store"|^200/)
          }
          const body = JSON.stringify({ uri: '/theirs', upstream: { nodes: { '127.0.0.1:1': 1 } } })
          for (const how of [{ method: 'PUT', body }, { method: 'PUT', body, ...marked }, { method: 'DELETE' }, { method: 'POST', body, mode: 'no-cors' as const }]) {
            await ask(page, route, how)
            await ask(page, `${gateway.admin}/apisix/admin/routes`, how)
          }
          // A form needs no permission of anybody; its post arrives.
          await page.evaluate(([action, text]) => {
            const form = Object.assign(document.createElement('form'), { method: 'post', action, enctype: 'text/plain' })
            form.append(Object.assign(document.createElement('input'), { name: text, value: '' }))
            document.body.append(form)
            form.submit()
          }, [`${gateway.admin}/apisix/admin/routes`, body] as const)
          await page.waitForURL(`${gateway.admin}/**`)
          expect(await page.content()).not.toContain('create_time')
        }
      })
      const { list, total } = await (await gateway.call('GET', '/apisix/admin/routes')).json()
      expect(total).toBe(1)
      expect(list[0].value).toMatchObject({ uri: '/mine', desc: 'not for others' })
      await page.goto('about:blank')
    })
  })
}

test('a name that somebody else points to this machine opens nothing, and the refusal names the setting', async ({ gateway }) => {
  const port = new URL(gateway.admin).port
  // As a browser asks whose resolver was told so, and as no browser lets a page ask.
  const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--host-resolver-rules=MAP evil.example 127.0.0.1'] })
  try {
    const page = await browser.newPage()
    const answer = await page.goto(`http://evil.example:${port}/ui/`)
    expect(answer?.status()).toBe(403)
    await expect(page.getByText('listen.hosts')).toBeVisible()
    await expect(page.locator('input[name=key]')).toHaveCount(0)
    const status = (path: string, init: RequestInit = {}) => ask(page, `http://evil.example:${port}${path}`, init)
    expect(await status('/console/v1/login', { method: 'POST', body: JSON.stringify({ key: ADMIN }), headers: { 'X-Tollhouse-Console': '1' } })).toMatch(/^403 .*listen\.hosts/s)
    expect(await status('/console/v1/overview', { headers: { 'X-Tollhouse-Console': '1' } })).toMatch(/^403 /)
    expect(await status('/apisix/admin/routes')).toMatch(/^40[13] /)
  } finally {
    await browser.close()
  }
  const forged = (path: string) => new Promise<{ status: number; text: string }>((resolve, reject) => {
    const sent = request(gateway.admin + path, { headers: { Host: 'evil.example' } }, (got) => {
      let text = ''
      got.setEncoding('utf8').on('data', (part: string) => { text += part }).on('end', () => resolve({ status: got.statusCode ?? 0, text }))
    })
    sent.once('error', reject)
    sent.end()
  })
  for (const path of ['/', '/ui/', '/ui/objects/routes', '/console/v1/login', '/console/v1/live']) {
    const { status, text } = await forged(path)
    expect(status, path).toBe(403)
    expect(text, path).toContain('listen.hosts')
  }
})
