/** The dialog that every deletion goes through. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { type ReactNode, useState } from 'react'
import { useWords } from '../words/words'
import { Dialog } from './dialog'
import { ErrorBox } from './states'
import { useTask } from './task'

interface Props {
  /** What is deleted, as the title says it: `route orders`. */
  what: string
  /** Name that has to be typed first; without one, a press of the button deletes. */
  typed?: string
  help: ReactNode
  /** What can be done before, beside the buttons. */
  before?: ReactNode
  /** Whether the help says why it cannot be deleted, and no button does it. */
  isImpossible?: boolean
  /** Deletes, and closes the dialog; its error is shown in the dialog. */
  remove: () => Promise<void>
  close: () => void
}

export function Deletion({ what, typed: name, help, before, isImpossible = false, remove, close }: Props) {
  const words = useWords()
  const [typed, setTyped] = useState('')
  const { run, isBusy, error } = useTask()
  return (
    <Dialog onClose={close} title={words.deleteTitle(what)}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        {typeof help === 'string' ? <Text size="sm">{help}</Text> : help}
        {!isImpossible && name !== undefined && <TextInput label={words.deleteConfirm(name)} placeholder={name} value={typed} data-autofocus onChange={(event) => setTyped(event.currentTarget.value)} />}
        <Group justify="space-between">
          <div>{before}</div>
          {isImpossible ? <Button variant="default" onClick={close} data-autofocus>{words.close}</Button> : (
            <Group gap="xs">
              <Button variant="default" onClick={close}>{words.cancel}</Button>
              <Button color="red" loading={isBusy} disabled={name !== undefined && typed !== name} onClick={() => void run(remove)} data-autofocus={name === undefined || undefined}>{words.remove}</Button>
            </Group>
          )}
        </Group>
      </Stack>
    </Dialog>
  )
}
