/** Calls of the gateway: the one place that fetches. What is answered is typed in `types.ts`. */
import { useSyncExternalStore } from 'react'
import { proof } from './proof'

/** What the gateway answers when it refuses. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly text: string,
  ) {
    super(message)
  }
}

/** The gateway did not answer at all. */
export class Unreachable extends Error {}

/** Since when nothing was answered, in milliseconds of Unix time; undefined while somebody answers. */
let silentSince: number | undefined
const listeners = new Set<() => void>()

function note(since: number | undefined) {
  if ((silentSince === undefined) === (since === undefined)) return
  silentSince = since
  for (const call of listeners) call()
}

/** Since when the gateway is silent, whatever it was asked. */
export const useSilence = () =>
  useSyncExternalStore((call) => {
    listeners.add(call)
    return () => listeners.delete(call)
  }, () => silentSince)

export interface Answer {
  status: number
  text: string
}

/** Called when a call is refused since nobody is signed in. */
let onSignedOut: () => void = () => {}

export function whenSignedOut(call: () => void) {
  onSignedOut = call
}

export interface CallOptions {
  method?: string
  /** JSON, or a form with files. */
  body?: string | FormData
  headers?: Record<string, string>
  signal?: AbortSignal
}

/** Calls the gateway; refusals are errors in the gateway's own words. */
export async function call(path: string, options: CallOptions = {}): Promise<Answer> {
  const response = await ask(path, options)
  return { status: response.status, text: await response.text() }
}

/** The same, with an answer of bytes, such as an archive. */
export async function bytes(path: string, options: CallOptions = {}): Promise<Blob> {
  return (await ask(path, options)).blob()
}

async function ask(path: string, options: CallOptions): Promise<Response> {
  const { method = 'GET', body, headers, signal } = options
  let response: Response
  try {
    response = await fetch(path, {
      method,
      body,
      signal,
      credentials: 'same-origin',
      cache: 'no-store',
      // What tells the gateway that its own page asks, and no other website or port.
      headers: { 'X-Tollhouse-Console': proof(), ...(typeof body === 'string' && body !== '' ? { 'Content-Type': 'application/json' } : {}), ...headers },
    })
  } catch (error) {
    if (signal?.aborted) throw error
    note(Date.now())
    throw new Unreachable(error instanceof Error ? error.message : String(error))
  }
  note(undefined)
  if (response.ok) return response
  const text = await response.text()
  const words = message(text) || `${response.status} ${response.statusText}`
  if (response.status === 401 && !path.startsWith('/console/v1/login') && words.includes('missing apikey')) onSignedOut()
  throw new ApiError(response.status, words, text)
}

/** The same, with a JSON answer. */
export async function json<T>(path: string, options?: CallOptions): Promise<T> {
  const { text } = await call(path, options)
  return JSON.parse(text) as T
}

function message(text: string): string {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return ''
    const { error_msg, description, message, info } = value as Record<string, unknown>
    const parts = [error_msg, description, message, info].filter((part) => part !== undefined)
    return parts.map((part) => (typeof part === 'string' ? part : JSON.stringify(part))).join(': ')
  } catch {
    return text.startsWith('<') ? '' : text.trim()
  }
}

/** A query of the arguments that are set. */
export function query(values: Record<string, string | number | undefined>): string {
  const set = Object.entries(values).filter(([, value]) => value !== undefined && value !== '')
  const text = new URLSearchParams(set.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? '' : `?${text}`
}
