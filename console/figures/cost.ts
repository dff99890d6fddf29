/** What a process has taken of the processors, read from the kernel. */
import { readdirSync, readFileSync } from 'node:fs'

/** CPU time of a process with all its threads, in milliseconds; those that have ended are not counted. */
export function cpuMs(pid: number): number {
  const threads = readdirSync(`/proc/${pid}/task`)
  const ns = threads.map((thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]))
  return ns.reduce((total, one) => total + one, 0) / 1e6
}

export const median = (values: number[]) => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] as number
}

export const rounded = (value: number, digits = 3) => Number(value.toPrecision(digits))

/** A call of a page, so many milliseconds after the first. */
export interface Call { after: number; path: string }

/** Makes the calls of this many pages over and over, `span` milliseconds a turn, until it is stopped. */
export function repeat(admin: string, key: string, calls: Call[], span: number, pages: number): () => Promise<number> {
  let isOver = false
  let made = 0
  const one = async (offset: number) => {
    let turn = performance.now() + offset
    while (!isOver) {
      for (const { after, path } of calls) {
        const wait = turn + after - performance.now()
        if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait))
        if (isOver) return
        // Only the newest second is new to a page that has been open for a while.
        const fresh = path.startsWith('/console/v1/live?') ? `/console/v1/live?since=${Math.floor(Date.now() / 1000) - 2}` : path
        await (await fetch(admin + fresh, { headers: { 'X-API-KEY': key, 'X-Tollhouse-Console': '1' } })).arrayBuffer()
        made += 1
      }
      turn += span
    }
  }
  const all = Array.from({ length: pages }, (_, at) => one((span / pages) * at))
  return async () => {
    isOver = true
    await Promise.all(all)
    return made
  }
}
