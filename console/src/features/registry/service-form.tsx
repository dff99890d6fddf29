/** A service is made before its first instance registers, or described. */
import { Button, Group, SimpleGrid, Stack, Textarea, TextInput } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { call } from '../../api/client'
import { segmentOf } from '../../lib/segment'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import type { Counted } from '../../api/types'
import { useWords } from '../../words/words'
import { NamespaceInput } from './namespace'
import { lines, pairs } from './pairs'

export interface ServiceDetails { namespace: string; name: string; comment: string; business: string; department: string; owners: string; ports: string; metadata: Record<string, string>; instances: Counted }

export const servicePath = (namespace: string, name: string) => `/registry/v1/services/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}`

export function ServiceForm({ service, close }: { service?: ServiceDetails; close: () => void }) {
  const words = useWords()
  const say = words.naming
  const client = useQueryClient()
  const navigate = useNavigate()
  const [namespace, setNamespace] = useState(service?.namespace ?? 'default')
  const [name, setName] = useState(service?.name ?? '')
  const [details, setDetails] = useState({ comment: service?.comment ?? '', business: service?.business ?? '', department: service?.department ?? '', owners: service?.owners ?? '', ports: service?.ports ?? '' })
  const [metadata, setMetadata] = useState(lines(service?.metadata ?? {}))
  const [error, setError] = useState<unknown>()
  const table = pairs(metadata)
  const field = (part: keyof typeof details, label: string) => <TextInput label={label} value={details[part]} onChange={(event) => setDetails({ ...details, [part]: event.currentTarget.value })} />
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    const body = { ...details, metadata: table }
    try {
      if (service) await call(servicePath(namespace, name), { method: 'PATCH', body: JSON.stringify(body) })
      else await call('/registry/v1/services', { method: 'POST', body: JSON.stringify({ namespace, name, ...body }) })
      await client.invalidateQueries({ queryKey: ['registry'] })
      await client.invalidateQueries({ queryKey: ['registry-service'] })
      close()
      if (service === undefined) await navigate({ to: `/registry/${segmentOf(namespace)}/${segmentOf(name)}` })
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} size="lg" title={service ? `${words.edit}: ${service.name}` : say.newService}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <NamespaceInput value={namespace} set={setNamespace} isFixed={service !== undefined} />
            <TextInput label={words.name} required disabled={service !== undefined} data-autofocus={service === undefined || undefined} placeholder="orders" value={name} onChange={(event) => setName(event.currentTarget.value)} />
            {field('comment', words.comment)}
            {field('owners', words.aliasOwners)}
            {field('business', say.business)}
            {field('department', say.department)}
          </SimpleGrid>
          <Textarea label={words.metadata} description={words.metadataHelp} autosize minRows={2} maxRows={8} spellCheck={false} value={metadata} error={table === undefined ? words.metadataFault : undefined} onChange={(event) => setMetadata(event.currentTarget.value)} />
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" disabled={name === '' || namespace === '' || table === undefined}>{service ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
