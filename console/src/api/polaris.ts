/** Calls of the registry in the words of Polaris, which the Admin listener passes on: users, policies and configuration files. Objects
 * are as Polaris documents them; numbers of 64 bits are texts there. */
import { ApiError, bytes, call, type CallOptions, query } from './client'

const ROOT = '/registry/v1/polaris'

type Values = Record<string, string | number | undefined>

export const polarisPath = (path: string, values: Values = {}) => `${ROOT}/${path}${query(values)}`

interface Coded { code?: number; info?: string; responses?: Coded[] }

/** Codes of what was done, of what was so already, and of what is not there. */
const isDone = (code: number | undefined) => code === undefined || code === 0 || (code >= 200_000 && code < 300_000)

/** Reads; a code that is none of success is an error in the registry's words. */
export async function readPolaris<T>(path: string, values: Values = {}, options: CallOptions = {}): Promise<T> {
  const { status, text } = await call(polarisPath(path, values), options)
  const value = JSON.parse(text) as T & Coded
  if (!isDone(value.code)) throw new ApiError(status, value.info ?? String(value.code), text)
  return value
}

/** Writes; of a list the first item that was refused is the error. */
export async function writePolaris<T>(method: string, path: string, body: unknown, values: Values = {}): Promise<T> {
  try {
    return await readPolaris<T>(path, values, { method, body: body === undefined ? undefined : JSON.stringify(body) })
  } catch (error) {
    throw error instanceof ApiError ? itemOf(error) : error
  }
}

/** The reason of a list's first refused item says more than that of the list. */
function itemOf(error: ApiError): ApiError {
  try {
    const refused = (JSON.parse(error.text) as Coded).responses?.find((one) => !isDone(one.code))
    return refused?.info ? new ApiError(error.status, refused.info, error.text) : error
  } catch {
    return error
  }
}

/** Sends a form with a file. */
export async function sendForm<T>(path: string, form: FormData, values: Values = {}): Promise<T> {
  return readPolaris<T>(path, values, { method: 'POST', body: form })
}

/** Fetches an archive. */
export const fetchArchive = (path: string, body: unknown) => bytes(polarisPath(path), { method: 'POST', body: JSON.stringify(body) })

/** Rows of a page: the registry has at most so many on one. */
export const PAGE_ROWS = 100

/** All pages of a list, up to a bound; `isCut` tells that there are more. */
export async function readAll<T>(path: string, member: string, values: Values = {}, most = 2000, signal?: AbortSignal): Promise<{ list: T[]; total: number; isCut: boolean }> {
  const list: T[] = []
  for (;;) {
    const page = await readPolaris<Record<string, unknown>>(path, { ...values, offset: list.length, limit: PAGE_ROWS }, { signal })
    const rows = (page[member] ?? []) as T[]
    list.push(...rows)
    const total = Number(page.total ?? page.amount ?? list.length)
    if (rows.length === 0 || list.length >= total || list.length >= most) return { list, total, isCut: list.length < total }
  }
}
