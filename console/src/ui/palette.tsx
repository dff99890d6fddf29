import { Modal, NavLink, ScrollArea, Text, TextInput } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { type KeyboardEvent, useState } from 'react'
import { json, query } from '../api/client'
import { KINDS, type Kind, type ObjectRow } from '../api/types'
import { parseCurl } from '../lib/curl'
import { useWords } from '../words/words'

interface Target {
  key: string
  label: string
  description?: string
  go: () => void
}

/** Objects asked of each kind. */
const ROWS = 5

/** Finds objects of all kinds and screens; explains a URL or a line of curl. */
export function Palette({ close }: { close: () => void }) {
  const words = useWords()
  const navigate = useNavigate()
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text.trim(), 80)
  const [chosen, setChosen] = useState(0)
  const found = useQuery<{ kind: Kind; row: ObjectRow }[][]>({
    queryKey: ['palette', search],
    enabled: search !== '' && !search.includes('://'),
    placeholderData: (previous) => previous,
    queryFn: ({ signal }) =>
      Promise.all(KINDS.map(async (kind) => {
        const { rows } = await json<{ rows: ObjectRow[] }>(`/console/v1/objects/${kind}${query({ q: search, page_size: ROWS })}`, { signal })
        return rows.map((row) => ({ kind, row }))
      })),
  })
  const screens: [string, string][] = [
    ['/', words.overview], ['/requests', words.requests], ['/explain', words.explain], ['/nodes', words.nodes],
    ...KINDS.map((kind): [string, string] => [`/objects/${kind}`, words[kind]]), ['/registry', words.registryServices],
    ['/certificates', words.ssls], ['/plugins', words.pluginsTitle], ['/bench', words.bench], ['/changes', words.changes], ['/settings', words.settings],
  ]
  const leave = (go: () => void) => () => {
    close()
    go()
  }
  const targets: Target[] = []
  const request = search.startsWith('curl ') ? parseCurl(search) : search.includes('://') ? { url: search, headers: [] } : undefined
  if (request) {
    const { url, method, headers, body } = request as { url: string; method?: string; headers: string[]; body?: string }
    targets.push({
      key: 'explain', label: words.explainThis(url),
      go: leave(() => void navigate({ to: '/explain', search: { url, method, h: headers.join('\n') || undefined, body } })),
    })
  }
  for (const { kind, row } of found.data?.flat() ?? []) {
    if (search === '' || request) break
    targets.push({
      key: `${kind}/${row.id}`, label: row.name ?? row.id,
      description: [words[kind], row.id, row.uri ?? row.uris?.[0], row.host ?? row.hosts?.[0]].filter(Boolean).join(' · '),
      go: leave(() => void navigate({ to: '/objects/$kind/$id', params: { kind, id: row.id } })),
    })
  }
  for (const [to, label] of screens) {
    if (!request && label.toLowerCase().includes(search.toLowerCase())) targets.push({ key: to, label, go: leave(() => void navigate({ to })) })
  }
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      setChosen((at) => Math.max(0, Math.min(targets.length - 1, at + step)))
    } else if (event.key === 'Enter') targets[chosen]?.go()
  }
  return (
    <Modal opened onClose={close} withCloseButton={false} size="lg" aria-label={words.paletteHint} yOffset="10vh">
      <TextInput
        data-autofocus
        placeholder={words.palettePlaceholder}
        aria-label={words.palettePlaceholder}
        role="combobox"
        aria-expanded
        aria-controls="palette-list"
        aria-activedescendant={targets[chosen] ? `palette-${chosen}` : undefined}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value)
          setChosen(0)
        }}
        onKeyDown={onKey}
      />
      <ScrollArea.Autosize mah="50vh" mt="xs">
        <div role="listbox" id="palette-list" aria-label={words.paletteHint}>
          {targets.map((target, at) => (
            <NavLink key={target.key} id={`palette-${at}`} role="option" aria-selected={at === chosen} component="button" active={at === chosen} label={target.label} description={target.description} onClick={target.go} />
          ))}
        </div>
        {targets.length === 0 && <Text c="dimmed" p="sm">{words.paletteEmpty}</Text>}
      </ScrollArea.Autosize>
    </Modal>
  )
}
