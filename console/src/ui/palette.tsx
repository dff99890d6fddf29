/** The palette: one field that leads everywhere. */
import { ScrollArea, Text, TextInput, UnstyledButton } from '@mantine/core'
import { useDebouncedValue } from '@mantine/hooks'
import { type KeyboardEvent, useEffect, useState } from 'react'
import { useWords } from '../words/words'
import { Dialog } from './dialog'
import { actionsOf, type Target, useTargets } from './palette-targets'

/** Finds objects of all kinds, screens and error codes; explains a URL or a line of curl. */
export function Palette({ close }: { close: () => void }) {
  const words = useWords()
  const [text, setText] = useState('')
  const [search] = useDebouncedValue(text.trim(), 80)
  const [chosen, setChosen] = useState(0)
  const [isEntered, setEntered] = useState(false)
  const [before] = useState(() => document.activeElement)
  const [actions] = useState(() => actionsOf(document.querySelector('#content') ?? document))
  const found = useTargets(search)
  // What the screen itself offers comes last: who searches looks for something else.
  const targets = [...found, ...actions.filter(({ label }) => search !== '' && label.toLowerCase().includes(search.toLowerCase()))]
  useEffect(() => document.getElementById(`palette-${chosen}`)?.scrollIntoView({ block: 'nearest' }), [chosen])
  const leave = () => {
    close()
    // Where the palette leads nowhere else, the focus goes back to where it was.
    if (before instanceof HTMLElement) before.focus({ preventScroll: true })
  }
  const choose = (target: Target | undefined) => {
    if (target === undefined) return
    leave()
    target.go()
  }
  // What is listed belongs to what was typed before, as long as the search has not caught up: Enter waits for it.
  const isBusy = search !== text.trim()
  useEffect(() => {
    if (!isEntered || isBusy) return
    setEntered(false)
    choose(targets[chosen])
  }, [isEntered, isBusy])
  const onKey = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
    if (step !== undefined) {
      event.preventDefault()
      setChosen((at) => Math.max(0, Math.min(targets.length - 1, at + step)))
    } else if (event.key === 'Enter' && isBusy) setEntered(true)
    else if (event.key === 'Enter') choose(targets[chosen])
  }
  return (
    <Dialog onClose={leave} withCloseButton={false} transitionProps={{ duration: 0 }} size="lg" title={words.paletteHint} classNames={{ header: 'unseen', body: 'palette' }} yOffset="10vh">
      <TextInput
        data-autofocus data-palette
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
          setEntered(false)
        }}
        onKeyDown={onKey}
      />
      <ScrollArea.Autosize mah="50vh" mt="xs">
        <div role="listbox" id="palette-list" aria-busy={isBusy} aria-label={words.paletteHint}>
          {targets.map((target, at) => (
            <UnstyledButton key={target.key} id={`palette-${at}`} className="target" role="option" aria-selected={at === chosen} onClick={() => choose(target)}>
              <span>{target.label}</span>
              {target.description !== undefined && <span className="target-note">{target.description}</span>}
            </UnstyledButton>
          ))}
        </div>
        {targets.length === 0 && <Text c="dimmed" p="sm">{words.paletteEmpty}</Text>}
      </ScrollArea.Autosize>
    </Dialog>
  )
}
