/** A line of a difference. */
export interface DiffLine {
  kind: 'same' | 'gone' | 'new'
  text: string
}

/** Lines beyond which lines are compared from both ends only: the table would grow with their product. */
const LINES_MAX = 2000

/** How `after` differs from `before`, line by line: the longest common subsequence. */
export function diffLines(before: string, after: string): DiffLine[] {
  const a = before.split('\n')
  const b = after.split('\n')
  let start = 0
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1
  let end = 0
  while (end < a.length - start && end < b.length - start && a.at(-1 - end) === b.at(-1 - end)) end += 1
  const same = (text: string): DiffLine => ({ kind: 'same', text })
  const middle = common(a.slice(start, a.length - end), b.slice(start, b.length - end))
  return [...a.slice(0, start).map(same), ...middle, ...a.slice(a.length - end).map(same)]
}

function common(a: string[], b: string[]): DiffLine[] {
  const gone = (text: string): DiffLine => ({ kind: 'gone', text })
  const added = (text: string): DiffLine => ({ kind: 'new', text })
  if (a.length * b.length > LINES_MAX * LINES_MAX) return [...a.map(gone), ...b.map(added)]
  const width = b.length + 1
  const lengths = new Uint16Array((a.length + 1) * width)
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const down = lengths[(i + 1) * width + j] as number
      const right = lengths[i * width + j + 1] as number
      const both = (lengths[(i + 1) * width + j + 1] as number) + 1
      lengths[i * width + j] = a[i] === b[j] ? both : Math.max(down, right)
    }
  }
  const lines: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) {
      lines.push({ kind: 'same', text: a[i] as string })
      i += 1
      j += 1
    } else if ((lengths[(i + 1) * width + j] as number) >= (lengths[i * width + j + 1] as number)) {
      lines.push(gone(a[i++] as string))
    } else {
      lines.push(added(b[j++] as string))
    }
  }
  return [...lines, ...a.slice(i).map(gone), ...b.slice(j).map(added)]
}

/** The lines that differ, each with `around` lines beside it; a gap is a null. */
export function excerpt(lines: DiffLine[], around = 3): (DiffLine | null)[] {
  const near = lines.map((_, at) =>
    lines.slice(Math.max(0, at - around), at + around + 1).some((line) => line.kind !== 'same'),
  )
  const kept: (DiffLine | null)[] = []
  lines.forEach((line, at) => {
    if (near[at]) kept.push(line)
    else if (kept.at(-1) !== null) kept.push(null)
  })
  return kept
}
