/** Lines and areas over time, with the sentence that says the same. Where numbers come from is not known here. */
import { Text } from '@mantine/core'
import { useState } from 'react'
import { Scroll } from '../ui/scroll'
import { useWords } from '../words/words'

export interface Line {
  label: string
  color: string
  /** One value a point; null is a gap. */
  values: (number | null)[]
  /** Filled down to zero. */
  isArea?: boolean
}

const WIDTH = 600
const HEIGHT = 100

/** A round number at or above `value`. */
export function ceiling(value: number): number {
  if (value <= 1) return 1
  const power = 10 ** Math.floor(Math.log10(value))
  return ([1, 2, 5, 10].find((step) => step * power >= value) as number) * power
}

/** The path of a line; gaps stay gaps. */
export function linePath(values: (number | null)[], top: number, isArea: boolean): string {
  const x = (at: number) => ((at / Math.max(1, values.length - 1)) * WIDTH).toFixed(1)
  const y = (value: number) => (HEIGHT * (1 - Math.min(1, value / top))).toFixed(1)
  let text = ''
  let start = -1
  const close = (end: number) => {
    if (isArea && start >= 0) text += `L${x(end)} ${y(0)}L${x(start)} ${y(0)}Z`
  }
  values.forEach((value, at) => {
    if (value === null) {
      close(at - 1)
      start = -1
      return
    }
    text += `${start < 0 ? 'M' : 'L'}${x(at)} ${y(value)}`
    if (start < 0) start = at
  })
  close(values.length - 1)
  return text
}

/** Lines over time. What they show is said in `sentence`, for who cannot see it, and below it stands as a table. */
export function Series({ lines, sentence, format, from, to, marks = [], pointName }: {
  lines: Line[]
  sentence: string
  format: (value: number) => string
  from: string
  to: string
  /** Places of marks, between 0 and 1. */
  marks?: number[]
  /** What a point is called in the table, by its place among all. */
  pointName: (at: number) => string
}) {
  const top = ceiling(Math.max(0, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))))
  return (
    <div>
      <figure className="chart" role="img" aria-label={sentence}>
        <div className="chart-plot" aria-hidden>
          <div className="chart-scale"><span>{format(top)}</span><span>{format(top / 2)}</span><span>{format(0)}</span></div>
          <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
            {[0, 0.5, 1].map((part) => (
              <line key={part} className="grid" x1={0} x2={WIDTH} y1={HEIGHT * part} y2={HEIGHT * part} vectorEffect="non-scaling-stroke" />
            ))}
            {marks.map((mark) => (
              <line key={mark} className="mark" x1={mark * WIDTH} x2={mark * WIDTH} y1={0} y2={HEIGHT} vectorEffect="non-scaling-stroke" />
            ))}
            {lines.map((line) => (
              <path
                key={line.label}
                d={linePath(line.values, top, line.isArea ?? false)}
                fill={line.isArea ? line.color : 'none'}
                fillOpacity={line.isArea ? 0.28 : undefined}
                stroke={line.color}
                strokeWidth={1.5}
                strokeLinejoin="round"
                vectorEffect="non-scaling-stroke"
              />
            ))}
          </svg>
        </div>
        <div className="chart-foot" aria-hidden>
          <span>{from}</span>
          <span className="legend">{lines.map((line) => <span key={line.label}><i style={{ background: line.color }} />{line.label}</span>)}</span>
          <span>{to}</span>
        </div>
      </figure>
      <AsTable lines={lines} format={format} pointName={pointName} />
    </div>
  )
}

/** The numbers of the lines, the newest first, as they were when somebody asked for them: what is read does not move. */
function AsTable({ lines, format, pointName }: { lines: Line[]; format: (value: number) => string; pointName: (at: number) => string }) {
  const words = useWords()
  const [rows, setRows] = useState<string[][]>()
  const take = () => {
    const points = lines[0]?.values.length ?? 0
    const text = (value: number | null | undefined) => (value === null || value === undefined ? '–' : format(value))
    setRows(Array.from({ length: points }, (_, back) => points - 1 - back).map((at) => [pointName(at), ...lines.map((line) => text(line.values[at]))]))
  }
  return (
    <details className="past" onToggle={(event) => (event.currentTarget.open ? take() : setRows(undefined))}>
      <summary><Text span size="xs" c="dimmed">{words.asTable}</Text></summary>
      {rows && (
        <div className="numbers-table"><Scroll>
          <table>
            <thead><tr><th>{words.time}</th>{lines.map((line) => <th key={line.label} className="numbers">{line.label}</th>)}</tr></thead>
            <tbody>{rows.map(([name, ...cells], at) => <tr key={at}><th scope="row">{name}</th>{cells.map((cell, column) => <td key={column} className="numbers">{cell}</td>)}</tr>)}</tbody>
          </table>
        </Scroll></div>
      )}
    </details>
  )
}
