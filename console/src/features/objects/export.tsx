/** Keeps objects of a list as a file: those that are ticked, or else those that the filter finds. */
import { Button } from '@mantine/core'
import { useState } from 'react'
import { exportObjects } from '../../api/transfer'
import type { Kind } from '../../api/types'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'

export function ExportButton({ kind, q, ticked, fail }: { kind: Kind; q: string | undefined; ticked: string[]; fail: (reason: unknown) => void }) {
  const words = useWords()
  const [isBusy, setBusy] = useState(false)
  const keep = async () => {
    setBusy(true)
    fail(undefined)
    try {
      await exportObjects(ticked.length > 0 ? { kind, ids: ticked } : { kind, q })
    } catch (reason) {
      fail(reason)
    } finally {
      setBusy(false)
    }
  }
  return <Button size="sm" variant="default" loading={isBusy} title={words.exportHelp} onClick={() => void keep()}>{ticked.length > 0 ? words.exportTicked(ticked.length) : words.exportAll}</Button>
}

/** A refusal of it, in the gateway's words. */
export const ExportFault = ({ reason }: { reason: unknown }) => (reason === undefined ? null : <ErrorBox error={reason} />)
