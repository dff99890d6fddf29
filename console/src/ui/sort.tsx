/** The heads of columns that a list can be ordered by. The order is in the address; the gateway makes it. */
import { Table, UnstyledButton } from '@mantine/core'
import type { ReactNode } from 'react'
import { useWords } from '../words/words'

export interface Sorting {
  /** Such as `name`, or `-name` for the last first; undefined for the order of the gateway. */
  sort: string | undefined
  choose: (sort: string | undefined) => void
}

/** What a press on the head of a column makes of an order: up, down, and back to none; what is newest first begins so. */
export function nextSort(by: string, sort: string | undefined, isNewestFirst = false): string | undefined {
  const steps = isNewestFirst ? [`-${by}`, by] : [by, `-${by}`]
  const at = sort === undefined ? -1 : steps.indexOf(sort)
  return steps[at + 1]
}

/** A head that orders: a button, so that it works by key and by pointer alike. */
export function SortHead({ by, sorting, children, className, isNewestFirst }: { by: string; sorting: Sorting; children: ReactNode; className?: string; isNewestFirst?: boolean }) {
  const words = useWords()
  const { sort, choose } = sorting
  const state = sort === by ? 'ascending' : sort === `-${by}` ? 'descending' : 'none'
  const arrow = { ascending: '▲', descending: '▼', none: '↕' }[state]
  return (
    <Table.Th className={className} aria-sort={state}>
      <UnstyledButton className="sorter" title={words.sortBy} onClick={() => choose(nextSort(by, sort, isNewestFirst))}>
        {children}<span aria-hidden className={state === 'none' ? 'sort-none' : undefined}> {arrow}</span>
      </UnstyledButton>
    </Table.Th>
  )
}
