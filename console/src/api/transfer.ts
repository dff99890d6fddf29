/** Objects as documents: what an export is asked for, what an import would change, and how it is carried out. */
import { saveAs } from '../lib/save'
import { call, json, query } from './client'
import type { Changed } from './types'

/** The longest document that the gateway reads at once. */
export const DOCUMENT_BYTES_MAX = 16 * 1024 * 1024

export interface PlannedChange {
  kind: string
  id: string
  deed: 'create' | 'replace' | 'delete'
  differences?: Changed[]
  before: unknown
  after: unknown
}

export interface PlanProblem { place: string; pointer: string; text: string; hint: string; severity: 'error' | 'warning' }

export interface Plan {
  revision: number
  created: number
  replaced: number
  deleted: number
  unchanged: number
  left: number
  changes: PlannedChange[]
  more: number
  problems: PlanProblem[]
  problem_count: number
  valid: boolean
  too_large: string | null
  can_be_undone: boolean
}

const path = (prune: boolean, isDry: boolean) => `/console/v1/import${query({ prune: prune ? 'true' : undefined, dry_run: isDry ? 'true' : undefined })}`

/** What a document would change; nothing is written. */
export const planOf = (text: string, prune: boolean) => json<Plan>(path(prune, true), { method: 'POST', body: text })

/** Carries a plan out, unless somebody has changed an object since; the revision that it made, where it changed anything. */
export async function carryOut(text: string, prune: boolean, plan: Plan): Promise<number | undefined> {
  const answer = await call(path(prune, false), { method: 'POST', body: text, headers: { 'If-Match': `"${plan.revision}"` } })
  return (JSON.parse(answer.text) as { revision?: number }).revision
}

export interface ExportOf { kind?: string; ids?: string[]; q?: string }

/** Fetches a document and hands it to the browser to be kept. */
export async function exportObjects({ kind, ids, q }: ExportOf) {
  const { text } = await call(`/console/v1/export${query({ kind, q, ids: ids?.join(',') })}`)
  saveAs(`${kind ?? 'objects'}.yaml`, text, 'application/yaml')
}
