/** Keys that work on every screen, and the list of them. */
import { Button, Kbd, Table, Text } from '@mantine/core'
import { useNavigate, useRouter } from '@tanstack/react-router'
import { useEffect, useRef, useState } from 'react'
import { flushSync } from 'react-dom'
import { useWords } from '../words/words'
import { placesOf } from './places'

/** Letters that press what is in the row that has the focus, or else on the screen. */
const LETTERS: Record<string, string> = {
  e: '[data-edit]', y: '[data-copy]', u: '[data-undo]', n: '[data-new]', d: '[data-delete]', a: '[data-add]',
  i: '[data-isolate]', w: '[data-weight]', c: '[data-compare]', p: '[data-pause]', f: '[data-cell]', r: '[data-repeat]', x: 'tbody input[type=checkbox]',
  ArrowLeft: '[data-earlier]', ArrowRight: '[data-later]', '+': '[data-closer]', '-': '[data-wider]',
}

/** Where it is kept that somebody wants no letters as keys: who dictates would press them by speaking. */
const STORED = 'tollhouse-letters'

export const hasLetters = () => localStorage.getItem(STORED) !== 'off'

/** What of a row takes the focus. */
const FOCUSABLE = 'a[href], button:not([disabled]), input:not([disabled])'

const rows = () => [...document.querySelectorAll<HTMLElement>('#content tbody tr')].filter((row) => row.querySelector(FOCUSABLE) !== null)

/** Moves the focus by so many rows; from outside of them to the first. */
function step(by: number) {
  const all = rows()
  const at = all.findIndex((row) => row.contains(document.activeElement))
  const next = all[at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by))]
  // Where a row leads is what people open; a tick before it is not.
  const place = next?.querySelector<HTMLElement>('a[href]') ?? next?.querySelector<HTMLElement>(FOCUSABLE)
  place?.focus()
}

function press(selector: string) {
  const at = document.activeElement
  if (at instanceof HTMLElement && at.matches(selector)) return at.click()
  const row = at?.closest('tr')
  const own = row?.querySelector<HTMLElement>(selector.replace('tbody ', ''))
  ;(own ?? document.querySelector<HTMLElement>(selector))?.click()
}

/** Fields that text is typed into; ticks are none. */
const isTyping = (at: HTMLElement) =>
  at.isContentEditable || /^(TEXTAREA|SELECT)$/.test(at.tagName) || (at instanceof HTMLInputElement && !/^(checkbox|radio|button)$/.test(at.type))

/** Whether an arrow is for the screen: not where it moves what has the focus, nor where nothing of the screen is moved. */
const isForScreen = (event: KeyboardEvent, at: HTMLElement) =>
  !event.shiftKey && !(at instanceof HTMLInputElement) && at.closest('.scroll, .code, [role=menu], [role=listbox], [role=tablist]') === null && document.querySelector(LETTERS[event.key] as string) !== null

/** Moves the focus to the next head that orders the list. */
function nextHead() {
  const heads = [...document.querySelectorAll<HTMLElement>('#content .sorter')].filter((head) => head.checkVisibility())
  heads[(heads.findIndex((head) => head === document.activeElement) + 1) % heads.length]?.focus()
}

/** Keys that work everywhere. Letters never do while something is typed, nor behind a dialog. */
export function useKeys(openPalette: () => void, openHelp: () => void) {
  const navigate = useNavigate()
  const router = useRouter()
  const isGoing = useRef(false)
  useEffect(() => {
    // A dialog that this key closes is gone before the key arrives below.
    let isOfDialog = false
    const onCapture = () => { isOfDialog = document.querySelector('[role=dialog]') !== null }
    const onKey = (event: KeyboardEvent) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') {
        event.preventDefault()
        // The next letter is the palette's, however soon it comes, and also where it is open already.
        flushSync(openPalette)
        return document.querySelector<HTMLInputElement>('[data-palette]')?.focus()
      }
      const at = event.target as HTMLElement
      if (event.key === 'ArrowDown' && at.matches('[data-filter]')) return step(0)
      if (isTyping(at) || event.ctrlKey || event.metaKey || event.altKey || !hasLetters() || isOfDialog || document.querySelector('[role=dialog]')) return
      const place = isGoing.current ? placesOf(router).find(({ key }) => key === event.key)?.to : undefined
      isGoing.current = event.key === 'g'
      if (place !== undefined) {
        // The letter must not end in the field that the screen puts the focus on.
        event.preventDefault()
        void navigate({ to: place })
      } else if (event.key === 'Escape') {
        // What is open closes by itself; from a screen it leads to what is above.
        if (!event.defaultPrevented && document.querySelector('[role=menu]:popover-open, [role=listbox]') === null) [...document.querySelectorAll<HTMLElement>('#content .crumbs a')].at(-1)?.click()
      } else if (event.key === '?') openHelp()
      else if (event.key === 'j' || event.key === 'k') step(event.key === 'j' ? 1 : -1)
      else if (event.key === '/') {
        const field = document.querySelector<HTMLInputElement>('[data-filter]')
        if (field) {
          event.preventDefault()
          field.focus()
        }
      } else if (event.key === 's') nextHead()
      else if (LETTERS[event.key] !== undefined) {
        if (event.key.startsWith('Arrow') && !isForScreen(event, at)) return
        event.preventDefault()
        press(LETTERS[event.key] as string)
      }
    }
    addEventListener('keydown', onCapture, true)
    addEventListener('keydown', onKey)
    return () => {
      removeEventListener('keydown', onCapture, true)
      removeEventListener('keydown', onKey)
    }
  }, [navigate, router, openPalette, openHelp])
}

/** What the keys do, and the switch that turns letters off. */
export function Keys() {
  const words = useWords()
  const letters = placesOf(useRouter()).flatMap(({ key }) => key ?? [])
  const [isOn, setOn] = useState(hasLetters)
  const turn = () => {
    if (isOn) localStorage.setItem(STORED, 'off')
    else localStorage.removeItem(STORED)
    setOn(!isOn)
  }
  const list = [
    ['Ctrl K', words.keyPalette], [`g  ${letters.join(' ')}`, words.keyGo], ['/', words.keyFilter], ['↓', words.keyFirstRow], ['j k', words.keyRows], ['↵', words.keyOpen],
    ['x', words.keyTick], ['n', words.keyNew], ['e', words.keyEdit], ['d', words.keyDelete], ['a', words.keyAdd], ['i w', words.keyInstance], ['c', words.keyCompare], ['s', words.keySort], ['← →', words.keyRange], ['+ −', words.keyZoom], ['p', words.keyPause], ['f', words.keyCell], ['r', words.keyRepeat],
    ['u', words.keyUndo], ['y', words.keyCopy], ['Ctrl S', words.keyReview], ['Ctrl E', words.keyView], ['Alt ↑ ↓', words.keyProblem], ['Ctrl ↵', words.keyAsk], ['Esc', words.keyUp], ['?', words.keyHelp],
  ]
  return (
    <>
      <Button size="xs" variant="default" role="switch" aria-checked={isOn} onClick={turn} mb="sm">{isOn ? words.lettersOn : words.lettersOff}</Button>
      <Text size="sm" c="dimmed" mb="sm">{words.keysHelp}</Text>
      <Table><Table.Tbody>{list.map(([key, text]) => <Table.Tr key={key}><Table.Td className="key"><Kbd>{key}</Kbd></Table.Td><Table.Td>{text}</Table.Td></Table.Tr>)}</Table.Tbody></Table>
    </>
  )
}
