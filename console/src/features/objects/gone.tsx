/** An object that is not there (any more): who deleted it, and how it comes back. */
import { Anchor, Button, Group, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { undoChange, useChanges, useForgetting } from '../../api/changes'
import type { Kind } from '../../api/types'
import { useRefusal } from '../../ui/permission'
import { Empty, ErrorBox, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'

/** Who has deleted an object, as far as that is kept. */
export function useDeletion(kind: Kind, id: string | undefined) {
  const last = useChanges({ kind, id, limit: 1 }, false, id !== undefined).data?.rows[0]
  return last?.id === id && (last?.deed === 'delete' || last?.deed === 'undo') ? last : undefined
}

export function DeletedBy({ kind, id }: { kind: Kind; id: string }) {
  const words = useWords()
  const last = useDeletion(kind, id)
  if (last === undefined) return null
  return <>{words.goneBy(last.actor ?? words.anybody, last.revision)} <Anchor component={Link} to={`/changes/${last.name}`}><Time at={last.at_ms / 1000} /></Anchor>. </>
}

/** An object that is not there: who has deleted it and when, as far as that is kept, and the way back. */
export function Gone({ kind, id }: { kind: Kind; id: string }) {
  const words = useWords()
  const refused = useRefusal()
  const forget = useForgetting()
  const [error, setError] = useState<unknown>()
  const last = useDeletion(kind, id)
  const restore = async () => {
    try {
      await undoChange(last?.name ?? '')
      await forget()
    } catch (reason) {
      setError(reason)
    }
  }
  return (
    <>
      <ScreenHead title={`${words.oneOf[kind].replace(/^./, (first) => first.toUpperCase())} ${id}`} />
      {error !== undefined && <ErrorBox error={error} />}
      <Empty>
        {words.gone} <DeletedBy kind={kind} id={id} />
        <Anchor component={Link} to={`/objects/${kind}`}>{words[kind]}</Anchor>
      </Empty>
      {last !== undefined && (
        <Group mt="md" gap="sm">
          <Button data-undo disabled={refused !== undefined} title={refused} onClick={() => void restore()}>{words.restore}</Button>
          {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
        </Group>
      )}
    </>
  )
}
