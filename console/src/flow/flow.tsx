/** Steps in a row with arrows between them. What the steps are is not known here. */
import { Anchor, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'

/** A box of the path of a request. */
export interface Step {
  key: string
  /** Where it comes from, such as `route` or `service pay`. */
  owner?: string
  title: ReactNode
  /** What opens it. */
  to?: string
  notes?: ReactNode[]
  /** What it takes, in figures. */
  figures?: ReactNode
  /** Whether it does not do what it is there for. */
  isBad?: boolean
}

/** Steps from left to right, on a phone from the top down; an ordered list for who does not see it. */
export function Flow({ steps, label }: { steps: Step[]; label: string }) {
  return (
    <ol className="flow" aria-label={label}>
      {steps.map((step, at) => (
        <li key={step.key} className="flow-item">
          {at > 0 && <span className="arrow" aria-hidden>→</span>}
          <div className={['step', step.isBad ? 'bad' : '', step.figures ? 'busy' : ''].join(' ')}>
            {step.owner && <Text size="xs" c="dimmed">{step.owner}</Text>}
            <Text fw={600} size="sm" className="wrap">{step.to ? <Anchor component={Link} to={step.to}>{step.title}</Anchor> : step.title}</Text>
            {step.notes?.map((note, index) => <Text key={index} size="xs" component="div">{note}</Text>)}
            {step.figures}
          </div>
        </li>
      ))}
    </ol>
  )
}
