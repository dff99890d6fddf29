/** What was saved last, with the offer to take it back. */
import { Button, CloseButton, Group, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { undoChange, useForgetting } from '../api/changes'
import { json, query } from '../api/client'
import { onSaved, type Saving } from '../api/saved'
import type { ChangeList } from '../api/types'
import { useWords } from '../words/words'
import { ErrorBox } from './states'

/** How long the offer stands, in milliseconds: it is no alarm, and the page of changes has it for ever. */
const SHOWN_MS = 20_000

/** Says which revision a save has made, and takes it back where that was a slip. */
export function Saved() {
  const words = useWords()
  const forget = useForgetting()
  const [saving, setSaving] = useState<Saving & { at: number }>()
  const [undone, setUndone] = useState<number>()
  const [error, setError] = useState<unknown>()
  useEffect(() => onSaved((next) => {
    setSaving({ ...next, at: Date.now() })
    setUndone(undefined)
    setError(undefined)
  }), [])
  useEffect(() => {
    if (saving === undefined) return
    const timer = setTimeout(() => setSaving(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [saving])
  const { data } = useQuery({
    queryKey: ['changes', 'saved', saving],
    enabled: saving !== undefined && undone === undefined,
    queryFn: ({ signal }) => json<ChangeList>(`/console/v1/changes${query({ kind: saving?.kind, id: saving?.id, limit: 1 })}`, { signal }),
  })
  const row = data?.rows[0]
  if (saving === undefined || row === undefined) return null
  const undo = async () => {
    try {
      setUndone(await undoChange(row.name))
      await forget()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <div className="card saved" role="status">
      <Group justify="space-between" wrap="nowrap">
        <Text size="sm">{undone === undefined ? words.saved(row.revision) : words.undone(undone)}</Text>
        <Group gap="xs" wrap="nowrap">
          {undone === undefined && <Button size="compact-sm" variant="default" onClick={() => void undo()}>{words.undoChange}</Button>}
          <CloseButton aria-label={words.close} onClick={() => setSaving(undefined)} />
        </Group>
      </Group>
      {error !== undefined && <ErrorBox error={error} />}
    </div>
  )
}
