/** Texts that are copied; what is copied is made when it is asked for. */
import { Button } from '@mantine/core'
import { useState } from 'react'
import { useWords } from '../words/words'
import { Menu, MenuItem } from './menu'

/** Copies a text; where the browser has no clipboard (plain HTTP to another host), it selects one. `label` names what is copied. */
export function CopyButton({ text, label }: { text: () => string; label?: string }) {
  const words = useWords()
  const [isDone, done] = useDone()
  const copy = async () => {
    await toClipboard(text())
    done()
  }
  return (
    <Button size="xs" variant="default" onClick={copy} aria-live="polite">
      {isDone ? words.copied : label === undefined ? words.copy : words.copyOf(label)}
    </Button>
  )
}

/** The same of a thing that can be said in several ways. */
export function CopyAs({ ways }: { ways: [string, () => string][] }) {
  const words = useWords()
  const [isDone, done] = useDone()
  return (
    <Menu label={words.copyAs} button={(opener) => <Button size="xs" variant="default" aria-live="polite" data-copy {...opener}>{isDone ? words.copied : `${words.copyAs} ▾`}</Button>}>
      {ways.map(([label, text]) => <MenuItem key={label} onClick={() => void toClipboard(text()).then(done)}>{label}</MenuItem>)}
    </Menu>
  )
}

/** True for a moment after it was called. */
function useDone(): [boolean, () => void] {
  const [isDone, setDone] = useState(false)
  return [isDone, () => {
    setDone(true)
    setTimeout(() => setDone(false), 4000)
  }]
}

async function toClipboard(text: string) {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  document.body.append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}
