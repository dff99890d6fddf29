/** One instance is registered or changed. Many at once are changed in `bulk.tsx`. */
import { Button, Checkbox, Group, SimpleGrid, Stack, Text, Textarea, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call } from '../../api/client'
import type { RegistryInstance } from '../../api/types'
import { quoted } from '../../lib/curl'
import { CopyButton } from '../../ui/copy'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { lines, pairs } from './pairs'

interface Props { namespace: string; service: string; instance?: RegistryInstance; close: () => void }

/** Registers an instance, or changes the one that is there: only what was changed is sent. */
export function InstanceForm({ namespace, service, instance, close }: Props) {
  const words = useWords()
  const client = useQueryClient()
  const [host, setHost] = useState(instance?.host ?? '')
  const [port, setPort] = useState(String(instance?.port ?? ''))
  const [protocol, setProtocol] = useState(instance?.protocol ?? '')
  const [version, setVersion] = useState(instance?.version ?? '')
  const [weight, setWeight] = useState(String(instance?.weight ?? 100))
  const [ttl, setTtl] = useState(instance?.ttl_seconds ? String(instance.ttl_seconds) : '')
  const [healthy, setHealthy] = useState(instance?.healthy ?? true)
  const [metadata, setMetadata] = useState(lines(instance?.metadata ?? {}))
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const table = pairs(metadata)
  const all: Record<string, unknown> = {
    protocol, version, weight: Number(weight), healthy, metadata: table ?? {}, ttl_seconds: ttl === '' ? null : Number(ttl),
  }
  const before: Record<string, unknown> = instance
    ? { protocol: instance.protocol, version: instance.version, weight: instance.weight, healthy: instance.healthy, metadata: instance.metadata, ttl_seconds: instance.ttl_seconds }
    : {}
  const changed = Object.fromEntries(Object.entries(all).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(before[name])))
  const body = JSON.stringify(instance ? changed : { namespace, service, host, port: Number(port), ...all })
  const path = instance ? `/registry/v1/instances/${encodeURIComponent(instance.id)}` : '/registry/v1/instances'
  const method = instance ? 'PATCH' : 'POST'
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await call(path, { method, body })
      await client.invalidateQueries({ queryKey: ['instances'] })
      await client.invalidateQueries({ queryKey: ['registry-events'] })
      close()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  const field = (label: string, value: string, set: (value: string) => void, more: object = {}) => (
    <TextInput label={label} value={value} onChange={(event) => set(event.currentTarget.value)} {...more} />
  )
  return (
    <Dialog onClose={close} size="lg" title={instance ? `${words.edit}: ${instance.host}:${instance.port}` : words.registerInstance(service)}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            {field(words.host, host, setHost, { required: true, disabled: instance !== undefined, placeholder: '10.0.0.1', 'data-autofocus': instance === undefined || undefined })}
            {field(words.port, port, setPort, { required: true, disabled: instance !== undefined, inputMode: 'numeric', placeholder: '8080' })}
            {field(words.weight, weight, setWeight, { inputMode: 'numeric', description: words.weightHelp })}
            {field(words.ttl, ttl, setTtl, { inputMode: 'numeric', description: words.ttlHelp })}
            {field(words.protocol, protocol, setProtocol, { placeholder: 'http' })}
            {field(words.version, version, setVersion, { placeholder: '1.0.0' })}
          </SimpleGrid>
          <Textarea label={words.metadata} description={words.metadataHelp} autosize minRows={2} maxRows={10} spellCheck={false} value={metadata}
            onChange={(event) => setMetadata(event.currentTarget.value)} error={table === undefined ? words.metadataFault : undefined} />
          <Checkbox label={words.healthy} description={ttl === '' ? words.naming.uncheckedHelp : undefined} checked={healthy} onChange={(event) => setHealthy(event.currentTarget.checked)} />
          {instance && <Text size="sm" c="dimmed">{words.instanceEditHelp}</Text>}
          <Group justify="space-between">
            <CopyButton label={words.copyCurl} text={() => `curl -X ${method} ${quoted(location.origin + path)} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(body)}`} />
            <Group>
              <Button variant="default" onClick={close}>{words.cancel}</Button>
              <Button type="submit" loading={isBusy} disabled={table === undefined || (instance !== undefined && Object.keys(changed).length === 0)}>{words.save}</Button>
            </Group>
          </Group>
        </Stack>
      </form>
    </Dialog>
  )
}
