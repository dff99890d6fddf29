/** Frames within which something wide scrolls, by keys too. On a phone a table in one is a list of cards. */
import { type MouseEvent, type ReactNode, useEffect, useRef, useState } from 'react'

/** Gives each cell the head of its column, which a card shows before the value. */
function labelCells(table: HTMLTableElement) {
  const heads = [...table.querySelectorAll('thead th')].map((head) => {
    // The arrow of an order is no part of the name, and a head for the ear alone is none for the eye.
    const own = head.querySelector('.sorter')?.firstChild?.textContent ?? head.textContent ?? ''
    return head.querySelector('.unseen') ? '' : own.trim()
  })
  for (const row of table.tBodies[0]?.rows ?? []) {
    let column = 0
    for (const cell of row.cells) {
      const label = cell.colSpan > 1 ? '' : (heads[column] ?? '')
      if (cell.dataset.label !== label) cell.dataset.label = label
      column += cell.colSpan
    }
  }
}

/** A press beside the texts of a row does what its first link does. */
function openRow(event: MouseEvent<HTMLDivElement>) {
  const at = event.target as HTMLElement
  const row = at.closest<HTMLElement>('tbody tr[data-hover]')
  if (row === null || at.closest('a, button, input, label, select, textarea, summary') || getSelection()?.isCollapsed === false) return
  row.querySelector<HTMLElement>('a[href], .rowlink:not([data-cell])')?.click()
}

/** A frame within which something wide scrolls. What has nothing in it that takes the focus takes it itself, so that keys scroll it. */
export function Scroll({ children }: { children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null)
  const [takesFocus, setTakesFocus] = useState(false)
  useEffect(() => {
    const box = frame.current
    if (box === null) return
    const look = () => setTakesFocus(box.scrollWidth > box.clientWidth && box.querySelector('a[href], button, input, select') === null)
    const watcher = new ResizeObserver(look)
    for (const part of [box, ...box.children]) watcher.observe(part)
    const label = () => box.querySelectorAll<HTMLTableElement>('table:has(thead)').forEach(labelCells)
    const rows = new MutationObserver(label)
    rows.observe(box, { childList: true, subtree: true })
    label()
    return () => {
      watcher.disconnect()
      rows.disconnect()
    }
  }, [])
  return <div ref={frame} className="scroll" onClick={openRow} tabIndex={takesFocus ? 0 : undefined}>{children}</div>
}
