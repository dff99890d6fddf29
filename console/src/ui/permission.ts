import type { Who } from '../api/types'
import type { Words } from '../words/en'

/** Why objects cannot be written; undefined where they can. A control that is off says its reason. */
export function whyNot(who: Who, words: Words): string | undefined {
  if (who.role === 'viewer') return words.viewerCannot
  if (who.mode === 'file') return words.readOnlyFile(who.reason ?? '')
  if (who.mode === 'away') return words.away(who.reason ?? '')
  if (who.mode === 'documents') return words.readOnly
  return undefined
}
