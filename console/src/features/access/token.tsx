/** The token of a user or group: shown once after it was made, reset, and switched on and off. */
import { Alert, Button, Group, Stack, Text } from '@mantine/core'
import { useState } from 'react'
import { readPolaris, writePolaris } from '../../api/polaris'
import { CopyButton } from '../../ui/copy'
import { Dialog } from '../../ui/dialog'
import { ErrorBox, StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'
import { useForgetAccess } from './queries'

export interface Holder { kind: 'user' | 'usergroup'; id: string; name: string; isEnabled: boolean }

interface Shown { user?: { auth_token?: string }; userGroup?: { auth_token?: string } }

/** Reads the token of a user or group that was just made or reset. */
export const readToken = ({ kind, id }: Pick<Holder, 'kind' | 'id'>) =>
  readPolaris<Shown>(`core/v1/${kind}/token`, { id }).then((it) => (it.user ?? it.userGroup)?.auth_token ?? '')

export function TokenBadge({ isEnabled }: { isEnabled: boolean }) {
  const say = useWords().access
  return <StateBadge state={isEnabled ? 'good' : 'off'} label={isEnabled ? say.tokenOn : say.tokenOff} />
}

/** A fresh token, with the warning that it is not shown again. */
export function FreshToken({ name, token }: { name: string; token: string }) {
  const say = useWords().access
  return (
    <Alert color="teal" variant="light" title={say.tokenOf(name)}>
      <Stack gap="xs">
        <Text className="mono wrap" data-token>{token}</Text>
        <Group gap="xs"><CopyButton label={say.token} text={() => token} /><Text size="sm">{say.tokenOnce}</Text></Group>
      </Stack>
    </Alert>
  )
}

export function TokenDialog({ holder, close }: { holder: Holder; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const [fresh, setFresh] = useState<string>()
  const [isEnabled, setEnabled] = useState(holder.isEnabled)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const run = async (deed: () => Promise<void>) => {
    setBusy(true)
    setError(undefined)
    try {
      await deed()
      await forget()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  const reset = () => run(async () => {
    await writePolaris('PUT', `core/v1/${holder.kind}/token/refresh`, { id: holder.id })
    setFresh(await readToken(holder))
  })
  const turn = () => run(async () => {
    await writePolaris('PUT', `core/v1/${holder.kind}/token/status`, { id: holder.id, token_enable: !isEnabled })
    setEnabled(!isEnabled)
  })
  return (
    <Dialog onClose={close} title={say.tokenTitle(holder.name)}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        {fresh !== undefined ? <FreshToken name={holder.name} token={fresh} /> : <><Group><TokenBadge isEnabled={isEnabled} /></Group><Text size="sm">{say.tokenHelp}</Text></>}
        <Group justify="space-between">
          <Group gap="xs">
            <Button variant="default" loading={isBusy} onClick={() => void turn()}>{isEnabled ? say.disableToken : say.enableToken}</Button>
            {fresh === undefined && <Button variant="default" color="red" loading={isBusy} onClick={() => void reset()}>{say.resetToken}</Button>}
          </Group>
          <Button onClick={close} data-autofocus>{words.close}</Button>
        </Group>
      </Stack>
    </Dialog>
  )
}
