/** Menus: a button that opens a list of commands or choices. The browser shows the list above everything else and closes it
 * on Escape or a click beside it; this file places it and moves the focus with the arrow keys. */
import { Link } from '@tanstack/react-router'
import { type KeyboardEvent, type ReactElement, type ReactNode, useId, useRef } from 'react'

/** Attributes of the button that opens a menu. */
export interface Opener { popoverTarget: string; 'aria-haspopup': 'menu'; 'aria-controls': string }

/** Space between the button and the list, and between the list and the edge of the window, in pixels. */
const GAP_PX = 6

const ITEMS = '[role=menuitem], [role=menuitemradio]'

/** A menu below its button, with the right edges in line. */
export function Menu({ button, children, label }: { button: (opener: Opener) => ReactElement; children: ReactNode; label: string }) {
  const id = useId()
  const list = useRef<HTMLDivElement>(null)
  const opener = () => document.querySelector<HTMLElement>(`[popovertarget="${CSS.escape(id)}"]`)?.getBoundingClientRect()
  const place = () => {
    const at = opener()
    if (list.current === null || at === undefined) return
    list.current.style.right = `${document.documentElement.clientWidth - at.right}px`
    list.current.style.top = `${at.bottom + GAP_PX}px`
  }
  // How large it is, is known once it is shown.
  const keepInside = () => {
    const [own, at] = [list.current, opener()]
    if (own === null || at === undefined) return
    const { left, width, height } = own.getBoundingClientRect()
    if (left < GAP_PX) own.style.right = `${document.documentElement.clientWidth - GAP_PX - width}px`
    if (at.bottom + GAP_PX + height > innerHeight && at.top > height + GAP_PX) own.style.top = `${at.top - GAP_PX - height}px`
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Tab') return list.current?.hidePopover()
    const all = [...(list.current?.querySelectorAll<HTMLElement>(ITEMS) ?? [])]
    const at = all.findIndex((item) => item === document.activeElement)
    const next = { ArrowDown: (at + 1) % all.length, ArrowUp: (at - 1 + all.length) % all.length, Home: 0, End: all.length - 1 }[event.key]
    if (next === undefined) return
    event.preventDefault()
    all[next]?.focus()
  }
  return (
    <>
      {button({ popoverTarget: id, 'aria-haspopup': 'menu', 'aria-controls': id })}
      <div
        ref={list} id={id} popover="auto" role="menu" aria-label={label} className="menu" onKeyDown={onKey}
        onBeforeToggle={(event) => { if (event.newState === 'open') place() }}
        onToggle={(event) => {
          if (event.newState !== 'open') return
          keepInside()
          list.current?.querySelector<HTMLElement>(ITEMS)?.focus()
        }}
        onClick={(event) => { if ((event.target as HTMLElement).closest(ITEMS) !== null) list.current?.hidePopover() }}
      >
        {children}
      </div>
    </>
  )
}

/** A command. */
export function MenuItem({ children, onClick }: { children: ReactNode; onClick: () => void }) {
  return <button type="button" role="menuitem" className="menu-item" tabIndex={-1} onClick={onClick}>{children}</button>
}

/** A link to another screen. */
export function MenuLink({ children, to, onClick }: { children: ReactNode; to: string; onClick?: () => void }) {
  return <Link to={to} role="menuitem" className="menu-item" tabIndex={-1} onClick={onClick}>{children}</Link>
}

/** A value of a choice. */
export function MenuChoice({ children, isChosen, onClick, lang }: { children: ReactNode; isChosen: boolean; onClick: () => void; lang?: string }) {
  return <button type="button" role="menuitemradio" aria-checked={isChosen} className="menu-item" tabIndex={-1} lang={lang} onClick={onClick}><span>{children}</span>{isChosen && <span aria-hidden>✓</span>}</button>
}

/** Entries that belong together, with their title. */
export function MenuGroup({ title, children }: { title?: string; children: ReactNode }) {
  return <div role="group" aria-label={title} className="menu-group">{title !== undefined && <div className="menu-title" aria-hidden>{title}</div>}{children}</div>
}
