/** The dialog that undoes a change: what would be restored, and where it was changed again since, that first. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { undoChange, useForgetting } from '../api/changes'
import { ApiError } from '../api/client'
import type { ChangeDetail } from '../api/types'
import { memberText, pretty } from '../lib/json-text'
import { useWords } from '../words/words'
import { Dialog } from './dialog'
import { Difference } from './difference'
import { ErrorBox } from './states'

export const textOf = (value: unknown) => (value === null || value === undefined ? '' : JSON.stringify(value, null, 2))

export function Undoing({ change, close, done }: { change: Pick<ChangeDetail, 'name' | 'before' | 'after'>; close: () => void; done?: (revision: number) => void }) {
  const words = useWords()
  const forget = useForgetting()
  const { name, before, after } = change
  const [error, setError] = useState<unknown>()
  const [current, setCurrent] = useState<{ text: string; revision: number }>()
  const [isBusy, setBusy] = useState(false)
  const apply = async () => {
    setBusy(true)
    setError(undefined)
    try {
      const revision = await undoChange(name, current?.revision)
      await forget()
      close()
      done?.(revision)
    } catch (refused) {
      const text = refused instanceof ApiError && refused.status === 412 ? memberText(refused.text, 'current') : undefined
      if (text === undefined) setError(refused)
      else setCurrent({ text: pretty(memberText(text, 'value') ?? '{}'), revision: Number(memberText(text, 'modifiedIndex')) })
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} title={words.undoTitle} size="xl">
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        {current && <Alert color="yellow" role="alert"><Text size="sm">{words.undoChanged}</Text></Alert>}
        <Text size="sm">{before === null ? words.undoRemoves : words.undoHelp}</Text>
        <Difference before={current?.text ?? textOf(after)} after={textOf(before)} />
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{words.cancel}</Button>
          <Button loading={isBusy} onClick={() => void apply()} data-autofocus>{words.undoChange}</Button>
        </Group>
      </Stack>
    </Dialog>
  )
}
