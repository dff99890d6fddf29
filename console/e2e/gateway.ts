/** What all browser tests share: real gateways with folders of their own, signing in, and that no page breaks the
 * policy. No test is here. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Page, test as base, expect } from '@playwright/test'

export const ADMIN = 'edd1c9f034335f136f87ad84b625c8f1'
export const VIEWER = '4054f7cf07e344346cd3f287985e76a2'

/** Each call has a connection of its own: one that is kept may be closed by the gateway, idle for long, in the moment of the next call. */
const HEADERS = { 'X-API-KEY': ADMIN, Connection: 'close' }

/** The real program with a folder of its own, on ports that the kernel picks. */
export interface Gateway {
  /** Where its Admin listener is. */
  admin: string
  /** Where its data plane is. */
  plane: string
  /** An origin that answers everything. */
  origin: string
  call: (method: string, path: string, body?: unknown) => Promise<Response>
}

export const program = process.env.TOLLHOUSE ?? join(import.meta.dirname, '../../target/debug/tollhouse')

interface Started { child: ChildProcess; admin: string; plane: string; registry: string }

async function start(folder: string, more: object = {}, env: Record<string, string | undefined> = process.env): Promise<Started> {
  const config = join(folder, 'tollhouse.yaml')
  const listen = { http: '127.0.0.1:0', https: '', admin: '127.0.0.1:0', control: '', metrics: '', registry_grpc: '127.0.0.1:0', registry_http: '127.0.0.1:0', ...('resources' in more ? {} : { shenyu: '127.0.0.1:0' }) }
  writeFileSync(config, JSON.stringify({ data_dir: join(folder, 'data'), workers: 1, listen, admin: { key: ADMIN, viewer_key: VIEWER }, ...(process.env.TOLLHOUSE_OLD ? {} : { console: { bench: true } }), ...more }))
  return run(program, ['run', '-c', config], env)
}

/** Runs the program until it says where it listens. */
function run(binary: string, args: string[], env: Record<string, string | undefined>): Promise<Started> {
  const child = spawn(binary, args, { stdio: ['ignore', 'pipe', 'inherit'], env })
  let text = ''
  return new Promise((resolve, reject) => {
    child.once('exit', (code) => reject(new Error(`the gateway ended with ${code}: ${text}`)))
    child.stdout?.on('data', (bytes: Buffer) => {
      text += bytes.toString()
      const admin = /admin +(http:\/\/[\d.:]+)/.exec(text)?.[1]
      const plane = /data plane +(http:\/\/[\d.:]+)/.exec(text)?.[1]
      const registry = /registry +(http:\/\/[\d.:]+)/.exec(text)?.[1] ?? ''
      if (admin && plane && text.includes('resources')) resolve({ child, admin, plane, registry })
    })
  })
}

/** A folder whose files the browser is given in place of those within the program: a change of the page is tested
 * without building the program, after `npx vite build --outDir FOLDER`. */
const ASSETS = process.env.TOLLHOUSE_ASSETS

export const test = base.extend<{ violations: string[] }, { gateway: Gateway }>({
  context: async ({ context }, use) => {
    if (ASSETS) await context.route(/\/ui\/.*\.(js|css)$/, (route) => route.fulfill({ path: join(ASSETS, new URL(route.request().url()).pathname.split('/').pop() as string) }))
    await use(context)
  },
  gateway: [
    async ({}, use) => {
      const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
      const server = createServer((_, response) => response.end('hello'))
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
      const origin = `127.0.0.1:${(server.address() as AddressInfo).port}`
      const { child, admin, plane } = await start(folder)
      const call = (method: string, path: string, body?: unknown) =>
        fetch(admin + path, { method, headers: HEADERS, body: body === undefined ? undefined : JSON.stringify(body) })
      await use({ admin, plane, origin, call })
      await end(child)
      server.close()
      rmSync(folder, { recursive: true })
    },
    { scope: 'worker' },
  ],
  // Whatever a test is about: no error in the browser, and above all nothing that the policy forbids.
  violations: [
    async ({ page }, use) => {
      const found: string[] = []
      page.on('pageerror', (error) => found.push(error.message))
      page.on('console', (message) => {
        if (message.type() === 'error' && !/status of (400|401|403|404|405|412|429)|ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|ERR_FAILED|blocked by CORS policy/.test(message.text())) found.push(message.text())
      })
      await use(found)
      expect(found).toEqual([])
    },
    { auto: true },
  ],
})

/** A file of so many routes, each with a name, a host and a path of its own. */
export const manyRoutes = (count: number) => ({
  upstreams: [{ id: 'u', nodes: { '127.0.0.1:1': 1 } }],
  routes: Array.from({ length: count }, (_, at) => ({ id: `r${at}`, name: `service ${at % 1000} route ${at}`, uri: `/v${at % 7}/things/${at}`, hosts: [`h${at % 500}.example.com`], upstream_id: 'u' })),
})

/** What a test is given of a gateway of its own. */
export type Own = Pick<Gateway, 'admin' | 'plane' | 'call'> & {
  pid: number
  /** Writes and reads by the HTTP API of Polaris, as its administrator. */
  polaris: (method: string, path: string, body?: unknown) => Promise<Response>
}

/** Another gateway, whose objects come from a file; it may be written anew. */
export async function withFile(resources: object, use: (gateway: Own & { file: string }) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  const file = join(folder, 'resources.json')
  writeFileSync(file, JSON.stringify(resources))
  await withProcess(folder, { resources: file }, process.env, (gateway) => use({ ...gateway, file }))
}

/** Another gateway with nothing in it, told this besides. */
export async function withSettings(more: object, use: (gateway: Own) => Promise<void>) {
  await withProcess(mkdtempSync(join(tmpdir(), 'tollhouse-e2e-')), more, process.env, use)
}

/** A gateway that another program takes over from, on the same addresses, as an upgrade does. */
export async function withUpgrade(use: (gateway: Own & { upgrade: (binary: string) => Promise<void> }) => Promise<void>) {
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  const children: ChildProcess[] = []
  await withProcess(folder, {}, process.env, async (gateway) => {
    const upgrade = async (binary: string) => {
      const config = JSON.parse(readFileSync(join(folder, 'tollhouse.yaml'), 'utf8'))
      const address = (url: string) => url.replace('http://', '')
      Object.assign(config.listen, { http: address(gateway.plane), admin: address(gateway.admin), registry_grpc: '', registry_http: '', shenyu: '' })
      const next = join(folder, 'next.yaml')
      writeFileSync(next, JSON.stringify(config))
      children.push((await run(binary, ['run', '-c', next, '--upgrade'], process.env)).child)
    }
    try {
      await use({ ...gateway, upgrade })
    } finally {
      await Promise.all(children.map(end))
    }
  })
}

/** Another gateway with nothing in it, started with these variables of the environment. */
export async function withFresh(env: Record<string, string | undefined>, use: (gateway: Own) => Promise<void>) {
  await withProcess(mkdtempSync(join(tmpdir(), 'tollhouse-e2e-')), {}, env, use)
}

async function end(child: ChildProcess) {
  child.removeAllListeners('exit')
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await ended
}

async function withProcess(folder: string, more: object, env: Record<string, string | undefined>, use: (gateway: Own) => Promise<void>) {
  const { child, admin, plane, registry } = await start(folder, more, env)
  const call = (method: string, path: string, body?: unknown) =>
    fetch(admin + path, { method, headers: HEADERS, body: body === undefined ? undefined : JSON.stringify(body) })
  const polaris = (method: string, path: string, body?: unknown) => {
    const headers = { 'X-Polaris-Token': readFileSync(join(folder, 'data/registry.token'), 'utf8').trim(), 'Content-Type': 'application/json', Connection: 'close' }
    return fetch(registry + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) })
  }
  try {
    await use({ admin, plane, call, polaris, pid: child.pid as number })
  } finally {
    await end(child)
    rmSync(folder, { recursive: true })
  }
}

/** A server on a port that the kernel picks, for as long as it is used. */
export async function withOrigin(answer: (count: number, end: (text: string) => void) => void, use: (origin: string) => Promise<void>) {
  let count = 0
  const server = createServer((_, response) => answer((count += 1), (text) => response.end(text)))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await use(`127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

export async function signIn(page: Page, gateway: Pick<Gateway, 'admin'>, key = ADMIN, path = '/ui/') {
  await page.goto(gateway.admin + path)
  await page.locator('input[name=key]').fill(key)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await expect(page.locator('input[name=key]')).toHaveCount(0)
  await page.getByRole('heading', { level: 1 }).waitFor()
}

export { expect }
