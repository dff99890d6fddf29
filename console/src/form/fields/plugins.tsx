/** Plugins of an object, each as a card. Which there are is asked of the gateway. */
import { Button, Text } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'
import type { Path } from '../../lib/pointer'
import { Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { useFault, useForm, useHasFault } from '../context'
import { Field, RemoveButton } from '../field'
import type { Layer } from '../layers/layer'
import { PLUGIN_LAYERS } from '../layers/plugins/all'
import { isRecord, type Schema } from '../plan'
import { TEXTS, useSay } from '../texts'
import { Gallery } from './gallery'
import { type PluginFacts, usePluginFacts, usePluginRows } from './plugin-facts'

/** The plugins of an object, in the order in which they are written. */
export function Plugins({ path, value }: { path: Path; value: unknown }) {
  const say = useSay()
  const { set, isIdentity } = useForm()
  const fault = useFault(path)
  const { data, isError } = usePluginFacts()
  const [isChoosing, choosing] = useState(false)
  const [added, setAdded] = useState<string>()
  const confs = isRecord(value) ? value : {}
  const names = Object.keys(confs)
  // What is not known yet is not shown as if there were no form for it.
  if (data === undefined && !isError) return <Loading rows={2} />
  const add = (name: string) => {
    choosing(false)
    setAdded(name)
    const isCredential = isIdentity && data?.[name]?.consumer_schema !== undefined
    set([...path, name], JSON.stringify(isCredential ? {} : (PLUGIN_LAYERS[name]?.start ?? {})))
  }
  return (
    <div className="plugins">
      {fault && <Text size="sm" className="field-error">{fault}</Text>}
      {names.length === 0 && <p className="plugins-none">{say(TEXTS.noPlugins)}</p>}
      {names.map((name) => <Card key={name} path={[...path, name]} name={name} conf={confs[name]} facts={data?.[name]} isKnown={data !== undefined} isNew={name === added} />)}
      <Button variant="default" className="start" data-add-plugin onClick={() => choosing(true)}>+ {say(TEXTS.addPlugin)}</Button>
      {isChoosing && <Gallery taken={names} known={data ?? {}} pick={add} close={() => choosing(false)} />}
    </div>
  )
}

interface CardProps { path: Path; name: string; conf: unknown; facts: PluginFacts | undefined; isKnown: boolean; isNew: boolean }

/** One plugin: what it is for, whether it is on, its first fields, and all others folded. */
function Card({ path, name, conf, facts, isKnown, isNew }: CardProps) {
  const words = useWords()
  const say = useSay()
  const { isIdentity, set, remove } = useForm()
  const rows = usePluginRows()
  const isFaulty = useHasFault(path.slice(0, -1), [name])
  const [isClosed, close] = useState(false)
  const card = useRef<HTMLElement>(null)
  useEffect(() => {
    // After the dialog has given the focus back.
    if (isNew) requestAnimationFrame(() => (card.current?.querySelector<HTMLElement>('.plugin-body input:not([type=radio])') ?? card.current?.querySelector<HTMLElement>('.plugin-name'))?.focus())
  }, [isNew])
  const isCredential = isIdentity && facts?.consumer_schema !== undefined
  const own = facts && (isCredential ? facts.consumer_schema : facts.schema)
  const meta = isRecord(conf) && isRecord(conf._meta) ? conf._meta : undefined
  const isOff = meta?.disable === true
  const flip = () => {
    // A conf that was only switched off has no trace of it left.
    if (!isOff) set([...path, '_meta', 'disable'], 'true')
    else if (Object.keys(meta ?? {}).length === 1) remove([...path, '_meta'])
    else remove([...path, '_meta', 'disable'])
  }
  const isOpen = !isClosed || isFaulty
  const summary = rows?.find((row) => row.name === name)?.summary?.replaceAll('`', '')
  return (
    <article ref={card} className={isOff ? 'plugin off' : 'plugin'} aria-label={name} data-plugin={name}>
      <header>
        <button type="button" className="plugin-name" aria-expanded={isOpen} onClick={() => close(isOpen)}><span className="plugin-icon" aria-hidden>{isOpen ? '▾' : '▸'}</span>{name}</button>
        <span className="plugin-acts">
          <a href={`/ui/plugins/${encodeURIComponent(name)}`} target="_blank" rel="noreferrer">{say(TEXTS.manual)}<span className="unseen">: {name}, {say(TEXTS.newTab)}</span></a>
          {facts && <input type="checkbox" role="switch" className="switch" aria-label={`${say(TEXTS.pluginOn)}: ${name}`} checked={!isOff} onChange={flip} />}
          <RemoveButton path={path} label={name} />
        </span>
      </header>
      {summary && <p className="plugin-summary" lang="en">{summary}</p>}
      {isOpen && (
        <div className="plugin-body">
          {own
            ? <Field path={path} schema={{ ...own, type: 'object', properties: withCommon(own), description: undefined }} value={conf} label={name} look={{ layer: withMeta((isCredential ? PLUGIN_LAYERS[name]?.identity : PLUGIN_LAYERS[name]?.layer)) }} isBare />
            : <Field path={path} schema={{ description: isKnown ? words.notServed : undefined }} value={conf} label={name} />}
        </div>
      )}
    </article>
  )
}

/** The fields of a conf, and after them what every conf may say. */
function withCommon(schema: Schema): Record<string, Schema> {
  const { _meta: common, ...own } = schema.properties ?? {}
  return common === undefined ? own : { ...own, _meta: common }
}

/** A layer with a title for what every conf may say. */
const withMeta = (layer: Layer | undefined): Layer | undefined => layer && { ...layer, fields: { ...layer.fields, _meta: { title: TEXTS.common } } }
