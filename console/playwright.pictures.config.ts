/** The same for the pictures of the documentation. */
import { defineConfig } from '@playwright/test'
import base from './playwright.config'

/** Pictures of the screens, for the documentation and for the eye. */
export default defineConfig({ ...base, testDir: 'pictures', workers: 1, timeout: 1_200_000 })
