/** Lines and areas over time, with the sentence that says the same. Where numbers come from is not known here. */
import { Text } from '@mantine/core'
import { type PointerEvent, useState } from 'react'
import { Scroll } from '../ui/scroll'
import { useWords } from '../words/words'
import { nearest, type Scale, type ScaleKind, scaleOf } from './scale'

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

/** The path of a line; gaps stay gaps. */
export function linePath(values: (number | null)[], scale: Scale, isArea: boolean): string {
  const x = (at: number) => ((at / Math.max(1, values.length - 1)) * WIDTH).toFixed(1)
  const y = (value: number) => (HEIGHT * (1 - scale.height(value))).toFixed(1)
  let text = ''
  let start = -1
  const close = (end: number) => {
    if (isArea && start >= 0) text += `L${x(end)} ${HEIGHT}L${x(start)} ${HEIGHT}Z`
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

/** Where the pointer is, as a point of all charts that share it. */
export interface Cursor { at: number | undefined; move: (at: number | undefined) => void }

interface SeriesProps {
  lines: Line[]
  sentence: string
  format: (value: number) => string
  from: string
  to: string
  /** Places of marks, between 0 and 1. */
  marks?: number[]
  /** What a point is called in the table, by its place among all. */
  pointName: (at: number) => string
  scale?: ScaleKind
  /** A value that the axis covers although no line reaches it. */
  covers?: number
  cursor?: Cursor
}

/** Lines over time. What they show is said in `sentence`, for who cannot see it, and below it stands as a table. */
export function Series({ lines, sentence, format, from, to, marks = [], pointName, scale: kind = 'linear', covers = 0, cursor }: SeriesProps) {
  const [own, setOwn] = useState<number>()
  const { at, move } = cursor ?? { at: own, move: setOwn }
  const scale = scaleOf([covers, ...lines.flatMap((line) => line.values.map((value) => value ?? 0))], kind)
  const points = lines[0]?.values.length ?? 0
  const follow = (event: PointerEvent<HTMLDivElement>) => {
    const box = event.currentTarget.getBoundingClientRect()
    move(nearest((event.clientX - box.left) / Math.max(1, box.width), points))
  }
  return (
    <div>
      <figure className="chart" role="img" aria-label={sentence}>
        <div className="chart-plot" aria-hidden>
          <div className="chart-scale">{scale.ticks.map((tick) => <span key={tick}>{format(tick)}</span>)}</div>
          <div className="chart-area" onPointerMove={follow} onPointerLeave={() => move(undefined)}>
            <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none">
              {scale.ticks.map((tick, row) => (
                <line key={tick} className="grid" x1={0} x2={WIDTH} y1={(HEIGHT * row) / (scale.ticks.length - 1)} y2={(HEIGHT * row) / (scale.ticks.length - 1)} vectorEffect="non-scaling-stroke" />
              ))}
              {marks.map((mark) => (
                <line key={mark} className="mark" x1={mark * WIDTH} x2={mark * WIDTH} y1={0} y2={HEIGHT} vectorEffect="non-scaling-stroke" />
              ))}
              {lines.map((line) => (
                <path
                  key={line.label}
                  d={linePath(line.values, scale, line.isArea ?? false)}
                  fill={line.isArea ? line.color : 'none'}
                  fillOpacity={line.isArea ? 0.16 : undefined}
                  stroke={line.color}
                  strokeWidth={1.75}
                  strokeLinejoin="round"
                  vectorEffect="non-scaling-stroke"
                />
              ))}
            </svg>
            {at !== undefined && at < points && <Tip at={at} points={points} lines={lines} format={format} pointName={pointName} />}
          </div>
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

/** The values of a point, beside the pointer. */
function Tip({ at, points, lines, format, pointName }: { at: number; points: number } & Pick<SeriesProps, 'lines' | 'format' | 'pointName'>) {
  const place = points < 2 ? 0 : at / (points - 1)
  return (
    <>
      <span className="chart-at" style={{ left: `${place * 100}%` }} />
      <div className={place > 0.5 ? 'chart-tip left' : 'chart-tip right'} style={{ left: `${place * 100}%` }}>
        <strong>{pointName(at)}</strong>
        {lines.map((line) => {
          const value = line.values[at]
          return <div key={line.label}><span><i style={{ background: line.color }} />{line.label}</span><span className="numbers">{value === null || value === undefined ? '–' : format(value)}</span></div>
        })}
      </div>
    </>
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
