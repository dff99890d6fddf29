/** Nodes of an upstream as a table, whether they are written as a map or as a list: whichever was written stays. */
import { Button, Text, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { type ClipboardEvent, useState } from 'react'
import { json, query } from '../../api/client'
import type { NodeRow } from '../../api/types'
import { type Path, renameAt, setAt } from '../../lib/pointer'
import { StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useFault, useForm, useText } from '../context'
import { RemoveButton } from '../field'
import { isRecord } from '../plan'
import { TEXTS, useSay } from '../texts'
import { Raw } from './raw'

/** Nodes with address, port, weight, and what the gateway knows of their state. */
export function Nodes({ path, value }: { path: Path; value: unknown }) {
  const say = useSay()
  const { change, place } = useForm()
  const states = useStates(place)
  const [isAdding, adding] = useState(false)
  const isMap = isRecord(value) && Object.keys(value).length > 0
  const rows = isMap ? Object.keys(value).map((name) => ({ step: name as string | number, node: undefined as unknown })) : Array.isArray(value) ? (value as unknown[]).map((node, at) => ({ step: at as string | number, node })) : []
  const hasDraft = rows.length === 0 || isAdding
  const addAll = (lines: [string, number | undefined][]) => {
    adding(false)
    change((text) => lines.reduce((made, [host, port], at) => {
      const node = JSON.stringify({ host, ...(port === undefined ? {} : { port }), weight: 1 })
      return isMap ? setAt(made, [...path, joined(host, port)], '1') : setAt(made, [...path, rows.length + at], node)
    }, text), path)
  }
  return (
    <div className="nodes">
      <div className="nodes-head" aria-hidden><span>{say(TEXTS.address)}</span><span>{say(TEXTS.port)}</span><span>{say(TEXTS.weight)}</span>{states && <span>{say(TEXTS.health)}</span>}</div>
      {drawn(hasDraft && !isMap ? [...rows, { step: rows.length, node: undefined }] : rows).map(({ step, node }, at) => {
        const own = [...path, step]
        // One key for a node and for the row in which it is begun, so that the focus stays in it.
        if (!isMap && node !== undefined && !isRecord(node)) return <Raw key={at} path={own} schema={{}} value={node} label={String(at + 1)} canRemove />
        return isMap
          ? <MapNode key={at} path={own} at={at + 1} name={String(step)} state={states?.get(String(step))} hasStates={states !== undefined} isTaken={(name) => name in (value as object)} />
          : <ListNode key={at} path={own} node={node as Record<string, unknown> | undefined} at={at + 1} states={states} addAll={addAll} begin={() => adding(false)} isFocused={isAdding} />
      })}
      {hasDraft && isMap && <Draft at={rows.length + 1} add={(host, port) => addAll([[host, port]])} addAll={addAll} hasStates={states !== undefined} />}
      <More rows={rows} />
      {!hasDraft && <Button size="xs" variant="default" className="start" onClick={() => adding(true)}>+ {say(TEXTS.addNode)}</Button>}
    </div>
  )
}

const joined = (host: string, port: number | undefined) => (port === undefined ? host : `${host}:${port}`)

/** Host and port of `host:port`; an IPv6 address keeps its brackets. */
export function splitPort(text: string): [string, number | undefined] {
  const found = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(text.trim())
  return found ? [found[1] as string, Number(found[2])] : [text.trim(), undefined]
}

/** What the gateway knows of the nodes of an object, by `host:port`; nothing of one that it does not have yet. */
function useStates(place: string | undefined): Map<string, NodeRow> | undefined {
  const { data } = useQuery({
    queryKey: ['nodes', 'of', place],
    enabled: place !== undefined,
    refetchInterval: 3000,
    queryFn: ({ signal }) => json<{ rows: NodeRow[] }>(`/console/v1/nodes${query({ q: place })}`, { signal }),
  })
  if (place === undefined || data === undefined) return undefined
  return new Map(data.rows.filter((row) => row.place === place || row.place.startsWith(`${place}/`) || row.place.startsWith(`${place}.`)).map((row) => [`${row.host}:${row.port}`, row]))
}

function State({ row }: { row: NodeRow | undefined }) {
  const words = useWords()
  const states: Record<string, string> = words.nodeStates
  const isBad = row?.status === 'unhealthy' || row?.status === 'failing' || row?.status === 'unresolved'
  return <span className="node-state">{row && <StateBadge state={row.status === 'healthy' ? 'good' : isBad ? 'bad' : 'off'} label={states[row.status] ?? row.status} />}</span>
}

interface MapProps { path: Path; at: number; name: string; state: NodeRow | undefined; hasStates: boolean; isTaken: (name: string) => boolean }

function MapNode({ path, at, name, state, hasStates, isTaken }: MapProps) {
  const say = useSay()
  const words = useWords()
  const { change } = useForm()
  const [draft, setDraft] = useState<{ host: string; port: string }>()
  const [host, port] = splitPort(name)
  const shown = draft ?? { host, port: port === undefined ? '' : String(port) }
  const leave = () => {
    setDraft(undefined)
    const next = shown.port === '' ? shown.host : `${shown.host}:${shown.port}`
    // A name is changed when it is left, since half of one may be another's.
    if (draft !== undefined && next !== name && next !== '' && !isTaken(next)) change((text) => renameAt(text, path, next), path.slice(0, -1))
  }
  return (
    <div className="node" role="group" aria-label={`${words.node} ${at}`}>
      <TextInput aria-label={`${say(TEXTS.address)} ${at}`} value={shown.host} onChange={(event) => setDraft({ ...shown, host: event.currentTarget.value })} onBlur={leave} onKeyDown={(event) => event.key === 'Enter' && leave()} />
      <TextInput aria-label={`${say(TEXTS.port)} ${at}`} inputMode="numeric" value={shown.port} onChange={(event) => /^\d{0,5}$/.test(event.currentTarget.value) && setDraft({ ...shown, port: event.currentTarget.value })} onBlur={leave} onKeyDown={(event) => event.key === 'Enter' && leave()} />
      <Whole path={path} label={`${say(TEXTS.weight)} ${at}`} />
      {hasStates && <State row={state} />}
      <RemoveButton path={path} label={`${words.node} ${at}`} />
    </div>
  )
}

interface ListProps { path: Path; node: Record<string, unknown> | undefined; at: number; states: Map<string, NodeRow> | undefined; addAll: (lines: [string, number | undefined][]) => void; begin: () => void; isFocused: boolean }

/** A node of a list; one that is not there yet comes into the document with the first letter. */
function ListNode({ path, node, at, states, addAll, begin, isFocused }: ListProps) {
  const say = useSay()
  const words = useWords()
  const { set, change } = useForm()
  const fault = useFault([...path, 'host'])
  const whole = useFault(path)
  const others = Object.keys(node ?? {}).filter((name) => !['host', 'port', 'weight'].includes(name))
  const start = (begun: object) => {
    set(path, JSON.stringify(begun))
    begin()
  }
  const write = (host: string) => (node === undefined ? start({ host, weight: 1 }) : set([...path, 'host'], JSON.stringify(host)))
  const split = (text: string) => {
    const [host, port] = splitPort(text)
    if (node !== undefined && port !== undefined) change((all) => setAt(setAt(all, [...path, 'host'], JSON.stringify(host)), [...path, 'port'], String(port)), path)
  }
  const paste = (event: ClipboardEvent) => {
    const lines = linesOf(event)
    if (lines.length > 1) addAll(lines)
  }
  return (
    <div className="node" role="group" aria-label={`${words.node} ${at}`}>
      <TextInput
        aria-label={`${say(TEXTS.address)} ${at}`} error={fault ?? whole} placeholder="10.0.0.1" title={node === undefined ? say(TEXTS.pasteNodes) : undefined} autoComplete="off" spellCheck={false} autoFocus={isFocused && node === undefined}
        value={String(node?.host ?? '')} onChange={(event) => write(event.currentTarget.value)} onPaste={node === undefined || node.host === '' ? paste : undefined} onBlur={(event) => split(event.currentTarget.value)}
      />
      <Whole path={[...path, 'port']} label={`${say(TEXTS.port)} ${at}`} start={node === undefined ? (text) => start({ host: '', port: Number(text), weight: 1 }) : undefined} />
      <Whole path={[...path, 'weight']} label={`${say(TEXTS.weight)} ${at}`} start={node === undefined ? (text) => start({ host: '', weight: Number(text) }) : undefined} />
      {states && <State row={states.get(`${String(node?.host)}:${String(node?.port)}`)} />}
      {node !== undefined && <RemoveButton path={path} label={`${words.node} ${at}`} />}
      {others.length > 0 && <Text size="xs" c="dimmed" className="mono node-more">{others.map((name) => `${name}: ${JSON.stringify(node?.[name])}`).join(' · ')}</Text>}
    </div>
  )
}

/** Nodes of pasted lines of `host:port`; of a single one nothing, since it is pasted as text. */
function linesOf(event: ClipboardEvent): [string, number | undefined][] {
  const lines = event.clipboardData.getData('text').split(/[\s,;]+/).filter((line) => line !== '')
  if (lines.length > 1) event.preventDefault()
  return lines.map(splitPort)
}

interface DraftProps { at: number; hasStates: boolean; add: (host: string, port: number | undefined) => void; addAll: (lines: [string, number | undefined][]) => void }

/** A node of a map that is being typed: it comes into the document when its name is left. */
function Draft({ at, hasStates, add, addAll }: DraftProps) {
  const say = useSay()
  const words = useWords()
  const [host, setHost] = useState('')
  const [port, setPort] = useState('')
  const finish = () => {
    const [own, given] = splitPort(host)
    if (own !== '') add(own, given ?? (port === '' ? undefined : Number(port)))
  }
  const paste = (event: ClipboardEvent) => {
    const lines = linesOf(event)
    if (lines.length > 1) addAll(lines)
  }
  return (
    <div className="node" role="group" aria-label={`${words.node} ${at}`} onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && finish()} onKeyDown={(event) => { if (event.key === 'Enter') { event.preventDefault(); finish() } }}>
      <TextInput aria-label={`${say(TEXTS.address)} ${at}`} placeholder="10.0.0.1" title={say(TEXTS.pasteNodes)} autoComplete="off" spellCheck={false} value={host} onChange={(event) => setHost(event.currentTarget.value)} onPaste={paste} autoFocus />
      <TextInput aria-label={`${say(TEXTS.port)} ${at}`} placeholder="8080" inputMode="numeric" autoComplete="off" value={port} onChange={(event) => /^\d{0,5}$/.test(event.currentTarget.value) && setPort(event.currentTarget.value)} />
      <TextInput aria-label={`${say(TEXTS.weight)} ${at}`} value="1" readOnly tabIndex={-1} />
      {hasStates && <span className="node-state" />}
    </div>
  )
}

/** A whole number in a row; what is none yet stays in the field. `start` makes the node that it is the first of. */
function Whole({ path, label, start }: { path: Path; label: string; start?: (text: string) => void }) {
  const words = useWords()
  const { set, remove } = useForm()
  const written = useText(path)
  const fault = useFault(path)
  const [draft, setDraft] = useState<string>()
  const change = (text: string) => {
    const isWhole = /^(0|[1-9]\d*)$/.test(text)
    setDraft(isWhole ? undefined : text)
    if (isWhole && start) start(text)
    else if (isWhole) set(path, text)
  }
  const leave = () => {
    // A port may be absent; a weight may not, and comes back.
    if (draft === '' && path.at(-1) === 'port') remove(path)
    setDraft(undefined)
  }
  return (
    <TextInput
      aria-label={label} inputMode="numeric" autoComplete="off" placeholder={path.at(-1) === 'port' ? '80' : undefined}
      value={draft ?? written ?? (start && path.at(-1) === 'weight' ? '1' : '')} error={draft !== undefined && draft !== '' ? words.notANumber : fault}
      onChange={(event) => change(event.currentTarget.value)} onBlur={leave}
    />
  )
}
