import { useEffect, useRef } from 'react'

/** Leaves the field that has the focus, and goes on when what was typed there is in the document. */
export function leaveField(then: () => void) {
  if (document.activeElement instanceof HTMLElement) document.activeElement.blur()
  requestAnimationFrame(() => requestAnimationFrame(then))
}

/** Saves with Ctrl+S, after the field that has the focus. */
export function useSaveKey(save: () => unknown) {
  const latest = useRef(save)
  useEffect(() => {
    latest.current = save
    const onKey = (event: KeyboardEvent) => {
      if (!(event.ctrlKey || event.metaKey) || event.key !== 's') return
      event.preventDefault()
      leaveField(() => latest.current())
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  })
}

interface Move { current: { pathname: string }; next: { pathname: string } }

/** Whether a move leads to another page. An address that was typed has letters that a link of the page encodes, such as `+`. */
export const isElsewhere = ({ current, next }: Move) => plainOf(current.pathname) !== plainOf(next.pathname)

function plainOf(pathname: string): string {
  try {
    return decodeURIComponent(pathname)
  } catch {
    return pathname
  }
}
