/** Plugins to choose from, by what they are for. */
import { Button, TextInput } from '@mantine/core'
import { useState } from 'react'
import { Dialog } from '../../ui/dialog'
import { Icon, PURPOSE_ICONS } from '../../ui/icons'
import { useWords } from '../../words/words'
import { useForm } from '../context'
import { PLUGIN_LAYERS } from '../layers/plugins/all'
import { TEXTS, useSay } from '../texts'
import { type PluginFacts, usePluginRows } from './plugin-facts'

/** Purposes in the order in which people look for them. */
const CATEGORIES = ['traffic', 'authentication', 'security', 'transformation', 'observability', 'utility'] as const

/** Plugins that have a layer come first, in its order. */
const LAYERED = Object.keys(PLUGIN_LAYERS)
const rankOf = (name: string) => (LAYERED.includes(name) ? LAYERED.indexOf(name) : LAYERED.length)

interface Props { taken: string[]; known: Record<string, PluginFacts>; pick: (name: string) => void; close: () => void }

/** A dialog with all plugins that are not there yet; what is typed narrows them. */
export function Gallery({ taken, known, pick, close }: Props) {
  const words = useWords()
  const say = useSay()
  const { isIdentity } = useForm()
  const rows = usePluginRows()
  const [text, setText] = useState('')
  const search = text.toLowerCase().trim()
  const all = (rows ?? Object.keys(known).map((name) => ({ name, category: 'utility', summary: null }))).filter((row) => row.name in known && !taken.includes(row.name))
  const found = all.filter((row) => row.name.replaceAll('-', ' ').includes(search.replaceAll('-', ' ')) || (row.summary ?? '').toLowerCase().includes(search))
  // What is called so comes before what only speaks of it, and what most people need before the rest.
  const ordered = [...found].sort((a, b) => Number(b.name.includes(search)) - Number(a.name.includes(search)) || rankOf(a.name) - rankOf(b.name) || a.name.localeCompare(b.name))
  const groups = CATEGORIES.map((category) => ({ key: category as string, title: words.categories[category], own: ordered.filter((row) => row.category === category) }))
  // A consumer's plugins are mostly those that say who it is; they come first.
  const credentials = isIdentity ? ordered.filter((row) => known[row.name]?.consumer_schema) : []
  const shown = [{ key: 'credentials', title: words.credentials, own: credentials }, ...groups.map((group) => ({ ...group, own: group.own.filter((row) => !credentials.includes(row)) }))].filter(({ own }) => own.length > 0)
  return (
    <Dialog onClose={close} size="xl" returnFocus={false} title={say(TEXTS.pluginGallery)}>
      <TextInput
        data-autofocus aria-label={say(TEXTS.searchPlugins)} placeholder={say(TEXTS.searchPlugins)} value={text} autoComplete="off" onChange={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || !ordered[0]) return
          // The key would press the button that the focus goes back to.
          event.preventDefault()
          pick(ordered[0].name)
        }}
      />
      <div className="gallery">
        {shown.map(({ key, title, own }) => (
          <section key={key} aria-label={title}>
            <h3 className="with-icon">{key in PURPOSE_ICONS && <Icon name={PURPOSE_ICONS[key as keyof typeof PURPOSE_ICONS]} size={16} />}{title}</h3>
            <div className="gallery-rows">
              {own.map((row) => (
                <button key={row.name} type="button" className="gallery-row" onClick={() => pick(row.name)}>
                  <strong>{row.name}</strong>
                  <span lang="en">{(row.summary ?? '').replaceAll('`', '')}</span>
                </button>
              ))}
            </div>
          </section>
        ))}
        {shown.length === 0 && <p>{say(TEXTS.nothingFound)} <Button size="compact-sm" variant="subtle" onClick={() => setText('')}>{words.clear}</Button></p>}
      </div>
    </Dialog>
  )
}
