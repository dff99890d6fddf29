import { Button } from '@mantine/core'
import { useState } from 'react'
import { useWords } from '../words/words'

/** Copies a text; where the browser has no clipboard (plain HTTP to another host), it selects one. */
export function CopyButton({ text, label }: { text: () => string; label: string }) {
  const words = useWords()
  const [isDone, setDone] = useState(false)
  const copy = async () => {
    await toClipboard(text())
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return (
    <Button size="xs" variant="default" onClick={copy} aria-live="polite">
      {isDone ? words.copied : `${words.copy}: ${label}`}
    </Button>
  )
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
