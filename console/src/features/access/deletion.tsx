/** A user, group, role or policy is deleted, after its name was typed. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { useForgetAccess } from './queries'

export function Deletion({ name, help, path, id, close }: { name: string; help: string; path: string; id: string; close: () => void }) {
  const words = useWords()
  const forget = useForgetAccess()
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<unknown>()
  const remove = async () => {
    try {
      await writePolaris('POST', path, [{ id, name }])
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} title={words.deleteTitle(name)}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        <Text size="sm">{help}</Text>
        <TextInput label={words.name} placeholder={name} value={typed} data-autofocus onChange={(event) => setTyped(event.currentTarget.value)} />
        <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button color="red" disabled={typed !== name} onClick={() => void remove()}>{words.remove}</Button></Group>
      </Stack>
    </Dialog>
  )
}
