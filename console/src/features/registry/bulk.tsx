/** Many instances at once: isolated, taken back in or weighted, in one commit of the registry. The dialog says what is left for
 * traffic, counted over the whole service, and asks for its name where nothing would be. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { type FormEvent, useState } from 'react'
import { call, json, query } from '../../api/client'
import type { RegistryInstance } from '../../api/types'
import { quoted } from '../../lib/curl'
import { CopyButton } from '../../ui/copy'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'

export type Deed = 'isolate' | 'rejoin' | 'weight' | 'remove'

/** Heaviest that an instance may be. */
const WEIGHT_MAX = 65_535
const PATH = '/registry/v1/instances'

/** Number of instances of a service that get traffic: the page shows some of the instances, and this is about all of them. */
export const useServing = (namespace: string, service: string) =>
  useQuery({
    queryKey: ['instances', 'serving', namespace, service],
    staleTime: 0,
    refetchInterval: 5000,
    queryFn: ({ signal }) => json<{ total: number }>(`${PATH}${query({ namespace, service, healthy: 'true', isolated: 'false', page_size: 1 })}`, { signal }),
  })

interface Props { deed: Deed; chosen: RegistryInstance[]; namespace: string; service: string; close: () => void; done: () => void }

export function Bulk({ deed, chosen, namespace, service, close, done }: Props) {
  const words = useWords()
  const client = useQueryClient()
  const [weight, setWeight] = useState('100')
  const [typed, setTyped] = useState('')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const serving = useServing(namespace, service)
  const isHeavy = Number.isInteger(Number(weight)) && weight.trim() !== '' && Number(weight) >= 0 && Number(weight) <= WEIGHT_MAX
  const takesAway = deed === 'isolate' || deed === 'remove' || (deed === 'weight' && Number(weight) === 0)
  const gone = chosen.filter((one) => one.healthy && !one.isolated).length
  const left = serving.data && serving.data.total - gone
  const isLast = takesAway && gone > 0 && left !== undefined && left <= 0
  const body = JSON.stringify({ ids: chosen.map((one) => one.id), ...(deed === 'weight' ? { weight: Number(weight) } : { isolated: deed === 'isolate' }) })
  const label = { isolate: words.isolate, rejoin: words.rejoin, weight: words.setWeight, remove: words.naming.deregister }[deed]
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      if (deed === 'remove') for (const one of chosen) await call(`${PATH}/${encodeURIComponent(one.id)}`, { method: 'DELETE' })
      else await call(PATH, { method: 'PATCH', body })
      await client.invalidateQueries({ queryKey: ['instances'] })
      await client.invalidateQueries({ queryKey: ['registry-events'] })
      done()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} title={chosen.length === 1 ? `${label}: ${chosen[0]?.host}:${chosen[0]?.port}` : `${label}: ${words.selectedInstances(chosen.length)}`}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          {chosen.length > 1 && <Text size="sm" className="mono">{chosen.slice(0, 10).map((one) => `${one.host}:${one.port}`).join(', ')}{chosen.length > 10 && ` … ${chosen.length}`}</Text>}
          {deed === 'weight' && <TextInput data-autofocus label={words.weight} description={words.weightHelp} inputMode="numeric" value={weight} error={isHeavy ? undefined : words.weightFault(WEIGHT_MAX)} onChange={(event) => setWeight(event.currentTarget.value)} />}
          {takesAway && left !== undefined && <Text size="sm">{!isLast && words.bulkLeft(Math.max(0, left))}{deed === 'isolate' && ` ${words.naming.isolationStays}`}{deed === 'remove' && ` ${words.naming.deregisterHelp}`}</Text>}
          {isLast && <TextInput data-autofocus={deed !== 'weight' || undefined} label={words.isolateLast} placeholder={service} value={typed} onChange={(event) => setTyped(event.currentTarget.value)} />}
          <Group justify="space-between">
            {deed === 'remove' ? <span /> : <CopyButton label={words.copyCurl} text={() => `curl -X PATCH ${quoted(location.origin + PATH)} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(body)}`} />}
            <Group>
              <Button variant="default" onClick={close}>{words.cancel}</Button>
              <Button type="submit" data-autofocus={(deed !== 'weight' && !isLast) || undefined} loading={isBusy} disabled={(deed === 'weight' && !isHeavy) || (takesAway && left === undefined) || (isLast && typed !== service)}>{label}</Button>
            </Group>
          </Group>
        </Stack>
      </form>
    </Dialog>
  )
}
