/** How browser tests are run. Where the program is that they open, is said by `e2e/gateway.ts`. */
import { defineConfig } from '@playwright/test'

declare const process: { env: Record<string, string | undefined> }

/** Debian's browser, and never one that is downloaded. */
const chromium = process.env.CHROMIUM ?? '/usr/bin/chromium'

export default defineConfig({
  testDir: 'e2e',
  // Waits are for conditions; the machine may be busy with something else.
  timeout: 120_000,
  expect: { timeout: 30_000 },
  retries: 0,
  workers: 2,
  reporter: 'list',
  use: {
    actionTimeout: 30_000,
    video: 'off',
    trace: 'off',
    launchOptions: {
      executablePath: chromium,
      // Tests may run as root, in a container; what they open is their own.
      args: ['--no-sandbox', '--disable-quic', '--no-first-run', '--disable-background-networking', '--disable-component-update', '--disable-sync'],
    },
  },
})
