/** Somebody who has read no manual: presses and fills what has a visible label, and counts it. No test is here. */
import type { Locator, Page } from '@playwright/test'
import { expect } from './gateway'

export class Person {
  private clicks = 0
  private fields = 0
  private readonly began = Date.now()

  constructor(private readonly page: Page) {}

  /** Presses what shows a text; boxes of rows are told by the text of their row. */
  async press(what: Locator) {
    const shown = await what.evaluate((it) => (it as HTMLElement).innerText.trim() !== '' || (it.matches('input') && it.closest('tr, label') !== null))
    expect(shown, `${what} shows a text`).toBe(true)
    await what.click()
    this.clicks += 1
  }

  /** Fills the field under this label. */
  async fill(label: string, text: string, within: Page | Locator = this.page) {
    await this.field(label, within).fill(text)
    this.fields += 1
  }

  /** Presses the field under this label and pastes a text into it from the clipboard. */
  async paste(label: string, text: string) {
    await this.page.evaluate((it) => navigator.clipboard.writeText(it), text)
    await this.field(label, this.page).click()
    this.clicks += 1
    await this.page.keyboard.press('Control+v')
    this.fields += 1
  }

  private field(label: string, within: Page | Locator) {
    return within.getByLabel(label, { exact: true }).or(within.getByPlaceholder(label, { exact: true })).and(within.locator('input, textarea'))
  }

  /** Tells what the task has cost, and that it has cost no more clicks than it may. */
  ends(task: string, clicksMax: number) {
    console.log('measured', JSON.stringify({ task, clicks: this.clicks, fields: this.fields, 'ms in the browser': Date.now() - this.began }))
    expect(this.clicks, `clicks for: ${task}`).toBeLessThanOrEqual(clicksMax)
  }
}
