/** Dialog that deletes an entry once its name has been typed. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { useWords } from '../words/words'
import { Dialog } from './dialog'
import { ErrorBox } from './states'

/** `remove` deletes the entry and closes the dialog; its error is shown in the dialog. */
export function TypedDeletion({ name, help, remove, close }: { name: string; help: string; remove: () => Promise<void>; close: () => void }) {
  const words = useWords()
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<unknown>()
  return (
    <Dialog onClose={close} title={words.deleteTitle(name)}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        <Text size="sm">{help}</Text>
        <TextInput label={words.name} placeholder={name} value={typed} data-autofocus onChange={(event) => setTyped(event.currentTarget.value)} />
        <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button color="red" disabled={typed !== name} onClick={() => void remove().catch(setError)}>{words.remove}</Button></Group>
      </Stack>
    </Dialog>
  )
}
