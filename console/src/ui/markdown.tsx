// A little of Markdown as elements: headings, lists, tables, code, emphasis by words. Everything else is text, so that a
// manual page cannot bring markup of its own.
import type { ReactNode } from 'react'
import { Scroll } from './scroll'

/** The blocks of a page; headings begin at level `top`. */
export function Markdown({ text, top = 2 }: { text: string; top?: number }) {
  return <div className="manual" lang="en">{blocks(text).map((block, at) => <Block key={at} block={block} top={top} />)}</div>
}

type Part =
  | { kind: 'heading'; level: number; text: string }
  | { kind: 'code'; text: string }
  | { kind: 'list'; items: string[] }
  | { kind: 'table'; rows: string[][] }
  | { kind: 'text'; text: string }

/** Takes a page apart by its lines. */
export function blocks(page: string): Part[] {
  const parts: Part[] = []
  const lines = page.split('\n')
  let at = 0
  while (at < lines.length) {
    const line = lines[at] as string
    const heading = /^(#{1,6}) +(.*)$/.exec(line)
    if (line.trim() === '') at += 1
    else if (line.startsWith('```')) {
      const end = lines.findIndex((it, index) => index > at && it.startsWith('```'))
      const stop = end < 0 ? lines.length : end
      parts.push({ kind: 'code', text: lines.slice(at + 1, stop).join('\n') })
      at = stop + 1
    } else if (heading) {
      parts.push({ kind: 'heading', level: (heading[1] as string).length, text: heading[2] as string })
      at += 1
    } else if (/^[-*] /.test(line)) {
      const items: string[] = []
      while (at < lines.length && /^([-*] | {2,}\S)/.test(lines[at] as string)) {
        const own = lines[at] as string
        if (/^[-*] /.test(own)) items.push(own.slice(2))
        else items[items.length - 1] += ` ${own.trim()}`
        at += 1
      }
      parts.push({ kind: 'list', items })
    } else if (line.startsWith('|')) {
      const rows: string[][] = []
      while (at < lines.length && (lines[at] as string).startsWith('|')) {
        const cells = (lines[at] as string).split(/(?<!\\)\|/).slice(1, -1).map((cell) => cell.trim())
        if (!cells.every((cell) => /^:?-+:?$/.test(cell))) rows.push(cells)
        at += 1
      }
      parts.push({ kind: 'table', rows })
    } else {
      const start = at
      while (at < lines.length && (lines[at] as string).trim() !== '' && !/^(```|#|[-*] |\|)/.test(lines[at] as string)) at += 1
      if (at === start) at += 1
      parts.push({ kind: 'text', text: lines.slice(start, at).join(' ') })
    }
  }
  return parts
}

function Block({ block, top }: { block: Part; top: number }) {
  if (block.kind === 'heading') {
    const Heading = `h${Math.min(6, block.level + top - 1)}` as 'h2'
    return <Heading><Inline text={block.text} /></Heading>
  }
  if (block.kind === 'code') return <pre className="code" tabIndex={0}>{block.text}</pre>
  if (block.kind === 'list') return <ul>{block.items.map((item, at) => <li key={at}><Inline text={item} /></li>)}</ul>
  if (block.kind === 'table') {
    const [head = [], ...rows] = block.rows
    return (
      <Scroll>
        <table>
          <thead><tr>{head.map((cell, at) => <th key={at}><Inline text={cell} /></th>)}</tr></thead>
          <tbody>{rows.map((row, at) => <tr key={at}>{row.map((cell, column) => <td key={column}><Inline text={cell} /></td>)}</tr>)}</tbody>
        </table>
      </Scroll>
    )
  }
  return <p><Inline text={block.text} /></p>
}

/** Code, emphasis and links within a line; of a link the text stays, since pages lie elsewhere. */
export function Inline({ text }: { text: string }) {
  const parts: ReactNode[] = []
  const pattern = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\](?:\([^)]*\))?/g
  let last = 0
  for (const match of text.matchAll(pattern)) {
    parts.push(text.slice(last, match.index))
    const [, code, strong, link] = match
    if (code !== undefined) parts.push(<code key={match.index}>{code}</code>)
    else if (strong !== undefined) parts.push(<strong key={match.index}>{strong}</strong>)
    else parts.push((link as string).replaceAll('`', ''))
    last = match.index + match[0].length
  }
  parts.push(text.slice(last))
  return <>{parts}</>
}
