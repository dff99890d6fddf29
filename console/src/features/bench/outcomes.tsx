/** Thresholds of a measurement, met and missed. */
import { Text } from '@mantine/core'
import { StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'
import { outcome } from './figures'
import type { Run } from './queries'

/** How many were met of all, in a badge; what was missed below it. */
export function Outcomes({ run }: { run: Run }) {
  const words = useWords()
  const counted = outcome(run)
  if (counted === undefined) return <>–</>
  const missed = run.outcomes?.filter((it) => it.missed.length > 0) ?? []
  return (
    <>
      <StateBadge state={missed.length === 0 ? 'good' : 'bad'} label={words.metOf(counted.met, counted.all)} />
      {missed.map((it) => <Text key={it.condition} size="xs" className="mono">{it.condition}: {it.missed.map(([, value]) => value).join(', ')}</Text>)}
    </>
  )
}

/** Each threshold with its outcome, in a list. */
export function OutcomeList({ run }: { run: Run }) {
  const words = useWords()
  return (
    <>
      {run.outcomes?.map((it) => (
        <Text key={it.condition} size="sm">
          <StateBadge state={it.missed.length === 0 ? 'good' : 'bad'} label={it.missed.length === 0 ? words.thresholdMet : words.thresholdMissed} /> <span className="mono">{it.condition}</span>{it.missed.length > 0 && `: ${it.missed.map(([, value]) => value).join(', ')}`}
        </Text>
      ))}
    </>
  )
}
