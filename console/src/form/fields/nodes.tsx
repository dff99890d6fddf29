/** Nodes of an upstream, as a map or as a list: whichever was written stays. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Path } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useFault, useForm, useText } from '../context'
import { RemoveButton } from '../field'
import { isRecord } from '../plan'
import { Raw } from './raw'

/** Nodes with their weights. They may be written as a map or as a list, and stay what they are. */
export function Nodes({ path, value }: { path: Path; value: unknown }) {
  const words = useWords()
  const { set, rename } = useForm()
  const [added, setAdded] = useState('')
  const isList = Array.isArray(value) && value.length > 0
  const rows = isList
    ? (value as unknown[]).map((node, at) => ({ step: at as string | number, node }))
    : isRecord(value) ? Object.entries(value).map(([name, weight]) => ({ step: name as string | number, node: weight })) : []
  const isTaken = rows.some((row) => row.step === added)
  const add = () => {
    const [host, port] = splitPort(added)
    if (isList) set([...path, rows.length], JSON.stringify({ host, ...(port === undefined ? {} : { port }), weight: 1 }))
    else if (rows.length > 0) set([...path, added], '1')
    else set(path, JSON.stringify({ [added]: 1 }))
    setAdded('')
  }
  return (
    <Stack gap="xs">
      {drawn(rows).map(({ step, node }, at) => {
        const own = [...path, step]
        if (!isList) return <MapNode key={at} path={own} name={String(step)} rename={(name) => !rows.some((row) => row.step === name) && rename(own, name)} />
        if (!isRecord(node)) return <Raw key={at} path={own} schema={{}} value={node} label={String(at + 1)} canRemove />
        return <ListNode key={at} path={own} node={node} at={at + 1} />
      })}
      <More rows={rows} />
      <Group gap="xs">
        <TextInput size="xs" aria-label={words.newNode} placeholder="10.0.0.1:8080" value={added} autoComplete="off" onChange={(event) => setAdded(event.currentTarget.value)} onKeyDown={(event) => event.key === 'Enter' && added !== '' && !isTaken && add()} />
        <Button size="xs" variant="default" disabled={added === '' || isTaken} onClick={add}>{words.add}</Button>
      </Group>
    </Stack>
  )
}

function splitPort(text: string): [string, number | undefined] {
  const found = /^(.*):(\d{1,5})$/.exec(text)
  return found ? [found[1] as string, Number(found[2])] : [text, undefined]
}

function MapNode({ path, name, rename }: { path: Path; name: string; rename: (name: string) => void }) {
  const words = useWords()
  const [draft, setDraft] = useState<string>()
  const leave = () => {
    if (draft !== undefined && draft !== name) rename(draft)
    setDraft(undefined)
  }
  return (
    <Group gap="xs" wrap="nowrap" align="end">
      <TextInput className="grow" aria-label={`${words.address} ${name}`} value={draft ?? name} onChange={(event) => setDraft(event.currentTarget.value)} onBlur={leave} onKeyDown={(event) => event.key === 'Enter' && leave()} />
      <Whole path={path} label={`${words.weight} ${name}`} unit={words.weight} />
      <RemoveButton path={path} label={name} />
    </Group>
  )
}

function ListNode({ path, node, at }: { path: Path; node: Record<string, unknown>; at: number }) {
  const words = useWords()
  const { set } = useForm()
  const fault = useFault([...path, 'host'])
  const others = Object.keys(node).filter((name) => !['host', 'port', 'weight'].includes(name))
  return (
    <div>
      <Group gap="xs" wrap="nowrap" align="end">
        <TextInput className="grow" aria-label={`${words.host} ${at}`} error={fault} value={String(node.host ?? '')} onChange={(event) => set([...path, 'host'], JSON.stringify(event.currentTarget.value))} />
        <Whole path={[...path, 'port']} label={`${words.port} ${at}`} unit={words.port} />
        <Whole path={[...path, 'weight']} label={`${words.weight} ${at}`} unit={words.weight} />
        <RemoveButton path={path} label={`${words.node} ${at}`} />
      </Group>
      {others.length > 0 && <Text size="xs" c="dimmed" className="mono">{others.map((name) => `${name}: ${JSON.stringify(node[name])}`).join(' · ')}</Text>}
    </div>
  )
}

/** A whole number in a row; what is none yet stays in the field. */
function Whole({ path, label, unit }: { path: Path; label: string; unit: string }) {
  const words = useWords()
  const { set, remove } = useForm()
  const written = useText(path)
  const fault = useFault(path)
  const [draft, setDraft] = useState<string>()
  const change = (text: string) => {
    const isWhole = /^(0|[1-9]\d*)$/.test(text)
    setDraft(isWhole ? undefined : text)
    if (isWhole) set(path, text)
  }
  const leave = () => {
    // A port may be absent; a weight may not, and comes back.
    if (draft === '' && path.at(-1) === 'port') remove(path)
    setDraft(undefined)
  }
  return (
    <TextInput
      w={96} aria-label={label} leftSection={<Text size="xs" c="dimmed" aria-hidden>{unit.slice(0, 1)}</Text>} inputMode="numeric"
      value={draft ?? written ?? ''} error={draft !== undefined && draft !== '' ? words.notANumber : fault}
      onChange={(event) => change(event.currentTarget.value)} onBlur={leave}
    />
  )
}
