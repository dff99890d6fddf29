/** The same for what is measured. */
import { defineConfig } from '@playwright/test'
import base from './playwright.config'

/** Figures are taken one after the other, on a machine that does nothing else. */
export default defineConfig({ ...base, testDir: 'figures', workers: 1, timeout: 1_200_000 })
