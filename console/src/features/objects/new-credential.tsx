/** A credential is made in this browser, and its secret shown this once. */
import { Button, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call, json, query } from '../../api/client'
import { useOverview } from '../../api/live'
import type { ObjectFacts, ObjectRow } from '../../api/types'
import { CREDENTIAL_PLUGINS, type CredentialPlugin, credentialCurl, type Made, makeCredential, planeOf, targetOf } from '../../lib/credential'
import { newSecret } from '../../lib/secret'
import type { Text as Words } from '../../form/layers/layer'
import { useSay } from '../../form/texts'
import { CopyButton } from '../../ui/copy'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { pathOf } from './queries'

/** Ways to be recognised, as people call them. */
const WAYS: Record<CredentialPlugin, Words> = {
  'key-auth': ['API key', 'API 密钥'], 'basic-auth': ['User name and password', '用户名和密码'], 'jwt-auth': ['JSON Web Token', 'JSON Web Token'], 'hmac-auth': ['Signed requests', '签名请求'],
}

interface Props { consumer: string; taken: string[]; close: () => void }

/** Makes a credential in the browser, writes it, and shows its secret: then, and never again. */
export function NewCredential({ consumer, taken, close }: Props) {
  const words = useWords()
  const say = useSay()
  const client = useQueryClient()
  const [plugin, setPlugin] = useState<CredentialPlugin>('key-auth')
  const [mark] = useState(() => newSecret(4))
  const [typed, setTyped] = useState<string>()
  const [made, setMade] = useState<Made>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const id = typed ?? `${plugin}-${mark}`
  // A write to an id that is there would take away what somebody is recognised by.
  const fault = taken.includes(id) ? words.idTaken : undefined
  const save = async (event: FormEvent) => {
    event.preventDefault()
    if (fault !== undefined || id === '') return
    // Names by which a caller is known are one consumer's alone, and several of its credentials may have one.
    const next = makeCredential(plugin, `${consumer}-${mark}`)
    setBusy(true)
    setError(undefined)
    try {
      const body = JSON.stringify({ plugins: { [plugin]: next.conf } })
      await call(`${pathOf('consumers', consumer)}/credentials/${encodeURIComponent(id)}`, { method: 'PUT', body })
      setMade(next)
      await client.invalidateQueries({ queryKey: ['objects'] })
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} size="lg" title={made ? words.credentialOnce : words.addCredentialTo(consumer)}>
      {made ? <Shown plugin={plugin} made={made} close={close} /> : (
        <form onSubmit={save}>
          <Stack>
            {error !== undefined && <ErrorBox error={error} />}
            <NativeSelect label={words.credentialPlugin} description={words.credentialHelp} data={CREDENTIAL_PLUGINS.map((value) => ({ value, label: `${say(WAYS[value])} (${value})` }))} value={plugin} onChange={(event) => setPlugin(event.currentTarget.value as CredentialPlugin)} />
            <TextInput label={words.id} value={id} error={fault} autoComplete="off" spellCheck={false} onChange={(event) => setTyped(event.currentTarget.value)} />
            <Group justify="flex-end">
              <Button variant="default" onClick={close}>{words.cancel}</Button>
              <Button type="submit" data-autofocus loading={isBusy} disabled={fault !== undefined || id === ''}>{words.save}</Button>
            </Group>
          </Stack>
        </form>
      )}
    </Dialog>
  )
}

/** What was made, with the command that tries it. */
function Shown({ plugin, made, close }: { plugin: CredentialPlugin; made: Made; close: () => void }) {
  const words = useWords()
  const target = useTarget(plugin)
  const curl = target && credentialCurl(plugin, made.conf, target)
  return (
    <Stack>
      <Text size="sm" role="status">{words.credentialOnceHelp}</Text>
      {Object.entries(made.conf).map(([name, value]) => (
        <Group key={name} align="end" gap="xs" wrap="nowrap">
          <TextInput className="grow" label={<span className="mono">{name}</span>} aria-label={name} value={value} readOnly onFocus={(event) => event.currentTarget.select()} />
          <CopyButton label={name} text={() => value} />
        </Group>
      ))}
      {curl !== undefined && (
        <>
          <Text size="sm">{words.credentialTry}</Text>
          <pre className="code wrap" tabIndex={0} data-try>{curl}</pre>
        </>
      )}
      {target && curl === undefined && <Text size="sm" c="dimmed">{words.credentialSigns(plugin)}</Text>}
      <Group justify="flex-end">
        {curl !== undefined && <CopyButton label={words.copyCurl} text={() => curl} />}
        <Button data-autofocus autoFocus onClick={close}>{words.credentialKept}</Button>
      </Group>
    </Stack>
  )
}

/** Where the credential can be tried: a route that asks for one, or the data plane itself. */
function useTarget(plugin: CredentialPlugin) {
  const listener = useOverview().data?.listeners.http?.[0]
  return useQuery({
    queryKey: ['credential', 'target', plugin, listener],
    queryFn: async ({ signal }) => {
      const { rows } = await json<{ rows: ObjectRow[] }>(`/console/v1/objects/routes${query({ q: `plugin:${plugin} status:on`, page_size: 1 })}`, { signal })
      const id = rows[0]?.id
      const route = id === undefined ? undefined : (await json<ObjectFacts>(`/console/v1/objects/routes/${encodeURIComponent(id)}`, { signal })).value
      return targetOf(route, planeOf(listener, location.hostname))
    },
  }).data
}
