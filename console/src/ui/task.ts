/** What a press of a button starts: whether it still runs, and why the last one failed. */
import { useState } from 'react'

export function useTask() {
  const [error, fail] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const run = async (task: () => Promise<void>) => {
    setBusy(true)
    fail(undefined)
    try {
      await task()
    } catch (reason) {
      fail(reason)
    } finally {
      setBusy(false)
    }
  }
  return { run, isBusy, error, fail }
}
