/** What differs between two texts, line by line. */
import { Text } from '@mantine/core'
import { diffLines, excerpt } from '../lib/diff'
import { useWords } from '../words/words'

/** What differs, with a few lines around it. */
export function Difference({ before, after }: { before: string; after: string }) {
  const words = useWords()
  if (before === after) return <Text size="sm" c="dimmed">{words.noChange}</Text>
  // Nothing is no empty line that goes or comes.
  const isNothing = (line: { kind: string; text: string }) => line.text === '' && ((line.kind === 'gone' && before === '') || (line.kind === 'new' && after === ''))
  const lines = excerpt(diffLines(before, after).filter((line) => !isNothing(line)))
  const sign = { same: ' ', gone: '−', new: '+' }
  return (
    <div className="code diff" tabIndex={0}>
      {lines.map((line, at) => line === null
        ? <div key={at} className="gap" aria-hidden>⋯</div>
        : <div key={at} className={line.kind}>{sign[line.kind]} {line.text}</div>)}
    </div>
  )
}
