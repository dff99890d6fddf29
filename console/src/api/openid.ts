/**
 * Log-in at an identity provider, which sends the browser back to this page with a code. The gateway gets the code as it
 * would get a key; what else a log-in needs is in a cookie that no script reads.
 */
import { json } from './client'
import type { SignedIn } from './types'

/** Where the provider sends the browser back. */
const PAGE = '/ui/login'

/** Where the page was when the log-in began, in the storage of the tab. */
const PLACE = 'tollhouse-log-in-place'

const FIELDS = ['state', 'code', 'iss', 'error', 'error_description'] as const

/** What the provider has added to the address. It is taken out at once: a code belongs into no history. */
const answer = taken()

function taken(): Record<string, string> | undefined {
  if (location.pathname !== PAGE) return undefined
  const given = new URLSearchParams(location.search)
  const place = sessionStorage.getItem(PLACE)
  sessionStorage.removeItem(PLACE)
  history.replaceState(null, '', place?.startsWith('/ui/') && !place.startsWith(PAGE) ? place : '/ui/')
  if (!given.has('state')) return undefined
  return Object.fromEntries(FIELDS.flatMap((name) => (given.has(name) ? [[name, given.get(name) as string]] : [])))
}

let completion: Promise<SignedIn> | undefined

/** Completes the log-in with which this page was opened, once; undefined where there is none. */
export function completed(): Promise<SignedIn> | undefined {
  if (answer !== undefined) completion ??= json<SignedIn>('/console/v1/login', { method: 'POST', body: JSON.stringify(answer) })
  return completion
}

/** Leaves the page for the provider's. */
export async function logIn(): Promise<void> {
  const { location: there } = await json<{ location: string }>('/console/v1/login/openid', { method: 'POST' })
  sessionStorage.setItem(PLACE, location.pathname + location.search)
  location.assign(there)
}
