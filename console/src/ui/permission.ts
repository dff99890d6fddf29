/** Why something cannot be written. Who may is decided by the gateway. */
import { useSilence } from '../api/client'
import { useWho } from '../api/session'
import { useWords } from '../words/words'

/** Why objects, or what is registered, cannot be written; undefined where they can. A control that is off says its reason. */
export function useRefusal(what: 'objects' | 'registry' = 'objects'): string | undefined {
  const words = useWords()
  const who = useWho()
  const isSilent = useSilence() !== undefined
  if (who.role === 'viewer') return words.viewerCannot
  if (isSilent) return words.unreachable
  // The registry has a store of its own.
  if (what === 'registry') return undefined
  if (who.mode === 'file') return words.readOnlyFile(who.reason ?? '')
  if (who.mode === 'away') return words.away(who.reason ?? '')
  if (who.mode === 'documents') return words.readOnly
  return undefined
}
