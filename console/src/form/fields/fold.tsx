/** What is opened when it is needed: a title, and fields below it that are drawn then. */
import { type ReactNode, useState } from 'react'
import type { Path } from '../../lib/pointer'
import { useHasFault } from '../context'

interface Props {
  title: string
  isOpenFirst: boolean
  /** The place of what is inside, which opens where something is wrong. */
  field: Path
  /** Members inside; where they are not given, the place itself is. */
  members?: string[]
  count?: string
  name?: ReactNode
  after?: ReactNode
  /** Whether it is a section of the whole document: its title is a heading, with a note beside it. */
  isSection?: boolean
  note?: string
  children: ReactNode
}

/** Fields below a title. They are drawn when they are opened first, and stay. */
export function Fold({ title, isOpenFirst, field, members, count, name, after, isSection, note, children }: Props) {
  const [isOpen, setOpen] = useState(isOpenFirst)
  const isFaulty = useHasFault(members ? field : field.slice(0, -1), members ?? [String(field.at(-1) ?? '')])
  const isShown = isOpen || isFaulty
  if (isSection) {
    return (
      <details className="section folded" open={isShown} onToggle={(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
        <summary className="section-head"><h2>{title}{count && <span className="fold-count">{count}</span>}</h2>{note && <p>{note}</p>}</summary>
        {isShown && <div className="section-body">{children}</div>}
      </details>
    )
  }
  return (
    <details className="fold" open={isShown} onToggle={(event) => event.target === event.currentTarget && setOpen(event.currentTarget.open)}>
      <summary><span className="fold-title">{title}</span>{count && <span className="fold-count">{count}</span>}{name}</summary>
      {isShown && <div className="fold-body">{children}{after && <div className="fold-end">{after}</div>}</div>}
    </details>
  )
}
