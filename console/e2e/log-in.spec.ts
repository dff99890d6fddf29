/** Log-in at an identity provider: a small one of the tests, and the real gateway between it and the page. */
import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { ADMIN, expect, test, withSettings } from './gateway'

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function body(request: IncomingMessage) {
  const parts: Buffer[] = []
  for await (const part of request) parts.push(part as Buffer)
  return new URLSearchParams(Buffer.concat(parts).toString())
}

/** A provider that knows one user; it asks nobody for a password, and refuses while it is told to. */
async function withProvider(use: (provider: { issuer: string; refuse: (does: boolean) => void }) => Promise<void>) {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const codes = new Map<string, URLSearchParams>()
  let refuses = false
  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '/', issuer)
    const answer = (value: unknown, status = 200) => response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(value))
    if (pathname === '/.well-known/openid-configuration') {
      return answer({ issuer, authorization_endpoint: `${issuer}/authorize`, token_endpoint: `${issuer}/token`, jwks_uri: `${issuer}/keys` })
    }
    if (pathname === '/keys') return answer({ keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }] })
    if (pathname === '/authorize') {
      const code = randomUUID()
      codes.set(code, searchParams)
      const back = new URLSearchParams({ state: searchParams.get('state') ?? '', ...(refuses ? { error: 'access_denied' } : { code }) })
      return response.writeHead(302, { Location: `${searchParams.get('redirect_uri')}?${back}` }).end()
    }
    const form = await body(request)
    const asked = codes.get(form.get('code') ?? '')
    const proof = createHash('sha256').update(form.get('code_verifier') ?? '').digest('base64url')
    if (asked?.get('code_challenge') !== proof) return answer({ error: 'invalid_grant' }, 400)
    const now = Math.floor(Date.now() / 1000)
    const claims = { iss: issuer, sub: 'subject', aud: 'console', iat: now, exp: now + 60, nonce: asked.get('nonce'), preferred_username: 'ann' }
    const text = `${encoded({ alg: 'ES256', kid: 'one' })}.${encoded(claims)}`
    const signature = sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')
    answer({ access_token: 'a', token_type: 'Bearer', id_token: `${text}.${signature}` })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  await use({ issuer, refuse: (does) => { refuses = does } })
  server.close()
}

const BUTTON = 'Log in with Example'

test('people log in at the provider, come back to where they were, and log out', async ({ page }) => {
  await withProvider(async ({ issuer, refuse }) => {
    const openid_connect = { issuer, name: 'Example', client_id: 'console' }
    await withSettings({ admin: { key: ADMIN, openid_connect } }, async ({ admin }) => {
      await page.goto(`${admin}/ui/settings?tab=log`)
      refuse(true)
      await page.getByRole('button', { name: BUTTON }).click()
      await expect(page.getByText('the identity provider refuses: access_denied')).toBeVisible()
      expect(page.url()).toBe(`${admin}/ui/settings?tab=log`)
      refuse(false)
      await page.getByRole('button', { name: BUTTON }).click()
      await expect(page.getByRole('button', { name: 'ann', exact: true })).toBeVisible()
      expect(page.url()).toBe(`${admin}/ui/settings?tab=log`)
      const who = await page.evaluate(async () => (await fetch('/console/v1/login', { headers: { 'X-Tollhouse-Console': sessionStorage.getItem('tollhouse-proof') ?? '' } })).json())
      expect(who).toMatchObject({ signed_in: true, name: 'ann', role: null })
      // The code is in no place that the browser goes back to.
      await page.reload()
      expect(page.url()).not.toContain('code=')
    })
  })
})

test('without a provider no button offers one', async ({ page, gateway }) => {
  await page.goto(`${gateway.admin}/ui/`)
  await expect(page.getByRole('textbox', { name: 'Key' })).toBeVisible()
  await expect(page.getByRole('button', { name: /Log in with/ })).toHaveCount(0)
})
