/** What axe says of a page, for all tests that ask it. No test is here. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from '@playwright/test'

/** Levels A and AA of WCAG 2.0, 2.1 and 2.2. */
const TAGS = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

const source = readFileSync(join(import.meta.dirname, '../node_modules/axe-core/axe.min.js'), 'utf8')

interface Fault { id: string; nodes: { html: string; failureSummary: string }[] }
type Run = (where: Document, options: object) => Promise<{ violations: Fault[] }>

/** Faults of a page, one text for each rule that is broken: all rules, or only these. */
export async function faults(page: Page, rules?: string[]): Promise<string[]> {
  await page.evaluate(source)
  const violations = await page.evaluate(
    ([tags, only]) => (globalThis as unknown as { axe: { run: Run } }).axe.run(document, { runOnly: only ? { type: 'rule', values: only } : tags, resultTypes: ['violations'], preload: false }).then((it) => it.violations),
    [TAGS, rules] as const,
  )
  return violations.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.html} ${node.failureSummary}`).join(' ')}`)
}

/** Faults of colours alone: all that a theme can make different. */
export const faultsOfColours = (page: Page) => faults(page, ['color-contrast'])

/** Pixels by which a page is wider than its window; wide tables scroll within their frame. */
export const tooWide = (page: Page) => page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth)
