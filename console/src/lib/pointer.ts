/**
 * Edits of one place in a JSON text. What is beside the place is copied as it stands: numbers beyond 2^53, the order of
 * keys, unknown fields. The result is laid out anew, a member a line.
 */
import { items, members, pretty } from './json-text'

/** From a document to a place in it: names of members and indices of items. */
export type Path = readonly (string | number)[]

/** The path as a JSON pointer (RFC 6901). */
export const pointerOf = (path: Path) =>
  path.map((step) => `/${String(step).replaceAll('~', '~0').replaceAll('/', '~1')}`).join('')

/** The reverse: all steps are texts, since a pointer does not tell what it leads through. */
export const pathAt = (pointer: string): Path =>
  pointer.split('/').slice(1).map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))

/** Where a value stands in a text: from its first letter to behind its last. */
interface Span { start: number; end: number }

const isObject = (text: string) => text.trimStart().startsWith('{')
const isList = (text: string) => text.trimStart().startsWith('[')

function trimmed(text: string, { start, end }: Span): Span {
  const part = text.slice(start, end)
  return { start: start + (part.length - part.trimStart().length), end: end - (part.length - part.trimEnd().length) }
}

/** Where the part `step` of the value at `span` stands, and where its name begins. */
function part(text: string, span: Span, step: string | number): (Span & { name: number }) | undefined {
  const inside = text.slice(span.start, span.end)
  let found: (Span & { name: number }) | undefined
  if (isObject(inside)) {
    // Of members with one name the last counts, as for every reader of JSON here.
    for (const { name, start, value, end } of members(inside)) {
      if (name === String(step)) found = { ...trimmed(text, { start: span.start + value, end: span.start + end }), name: span.start + start }
    }
  } else if (isList(inside)) {
    let index = 0
    for (const { start, end } of items(inside)) {
      if (index === Number(step)) {
        const place = trimmed(text, { start: span.start + start, end: span.start + end })
        return { ...place, name: place.start }
      }
      index += 1
    }
  }
  return found
}

function locate(text: string, path: Path): (Span & { name: number }) | undefined {
  let at: (Span & { name: number }) | undefined = { ...trimmed(text, { start: 0, end: text.length }), name: 0 }
  for (const step of path) {
    at = part(text, at, step)
    if (at === undefined) return undefined
  }
  return at
}

/** The JSON at a place as it is written; undefined where there is nothing. */
export function textAt(text: string, path: Path): string | undefined {
  const at = locate(text, path)
  return at && text.slice(at.start, at.end)
}

/**
 * The document with `json` at a place. What is not there is added at the end of what is around it, and objects on the
 * way are made.
 */
export function setAt(text: string, path: Path, json: string): string {
  const at = locate(text, path)
  if (at) return pretty(text.slice(0, at.start) + json + text.slice(at.end))
  const above = path.slice(0, -1)
  const around = locate(text, above)
  const own = `${typeof path.at(-1) === 'number' ? '' : `${JSON.stringify(path.at(-1))}:`}${json}`
  if (around === undefined) return setAt(text, above, typeof path.at(-1) === 'number' ? `[${own}]` : `{${own}}`)
  const inside = text.slice(around.start, around.end)
  if (!isObject(inside) && !isList(inside)) return setAt(text, above, typeof path.at(-1) === 'number' ? `[${own}]` : `{${own}}`)
  const close = around.end - 1
  const isEmpty = inside.slice(1, -1).trim() === ''
  return pretty(`${text.slice(0, close)}${isEmpty ? '' : ','}${own}${text.slice(close)}`)
}

/** The document without what is at a place. */
export function removeAt(text: string, path: Path): string {
  const at = locate(text, path)
  if (at === undefined || path.length === 0) return text
  const after = /^\s*,/.exec(text.slice(at.end))
  if (after) return pretty(text.slice(0, at.name) + text.slice(at.end + after[0].length))
  return pretty(text.slice(0, at.name).replace(/,\s*$/, '') + text.slice(at.end))
}

/** The document with another name for a member, at its old position; unchanged where that name is taken. */
export function renameAt(text: string, path: Path, name: string): string {
  const at = locate(text, path)
  if (at === undefined || locate(text, [...path.slice(0, -1), name]) !== undefined) return text
  return pretty(`${text.slice(0, at.name)}${JSON.stringify(name)}:${text.slice(at.start)}`)
}
