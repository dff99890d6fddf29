/**
 * JSON as text. Objects are never parsed to be written again: numbers beyond 2^53, the order of keys and `1.0` stay
 * what they were.
 */

/** The end of the JSON value that begins at `start`. */
function endOf(text: string, start: number): number {
  let depth = 0
  let at = start
  while (at < text.length) {
    const letter = text[at]
    if (letter === '"') {
      at = endOfString(text, at)
      if (depth === 0) return at
      continue
    }
    if (letter === '{' || letter === '[') depth += 1
    if (letter === '}' || letter === ']') {
      depth -= 1
      if (depth < 0) return at
      if (depth === 0) return at + 1
    }
    if (depth === 0 && letter === ',') return at
    at += 1
  }
  return at
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

/** The members of the object that `text` holds: each name, and where its name begins and its value begins and ends. */
export function* members(text: string): Generator<{ name: unknown; start: number; value: number; end: number }> {
  let at = text.indexOf('{') + 1
  while (at > 0 && at < text.length) {
    const start = text.indexOf('"', at)
    if (start < 0) return
    const nameEnd = endOfString(text, start)
    const value = text.indexOf(':', nameEnd) + 1
    const end = endOf(text, value)
    yield { name: JSON.parse(text.slice(start, nameEnd)), start, value, end }
    if (text[nextMark(text, end) ?? text.length] !== ',') return
    at = end + 1
  }
}

/** The items of the list that `text` holds: where each begins and ends. */
export function* items(text: string): Generator<{ start: number; end: number }> {
  let at = text.indexOf('[') + 1
  while (at > 0 && at < text.length) {
    const start = nextMark(text, at)
    if (start === undefined || text[start] === ']') return
    const end = endOf(text, start)
    yield { start, end }
    if (text[nextMark(text, end) ?? text.length] !== ',') return
    at = (nextMark(text, end) as number) + 1
  }
}

/** The text of a member of the object that `text` holds; undefined where it has none. */
export function memberText(text: string, name: string): string | undefined {
  for (const member of members(text)) if (member.name === name) return text.slice(member.value, member.end).trim()
  return undefined
}

/** The object that `text` holds without these members; the others stay as they stand. */
export function withoutMembers(text: string, names: string[]): string {
  const kept = [...members(text)].filter((member) => !names.includes(String(member.name)))
  return `{${kept.map((member) => text.slice(member.start, member.end).trim()).join(',')}}`
}

/** The same JSON, a member a line. Texts and numbers are copied as they stand. */
export function pretty(text: string): string {
  let out = ''
  let depth = 0
  let at = 0
  const line = () => `\n${'  '.repeat(depth)}`
  while (at < text.length) {
    const letter = text[at] as string
    if (letter === '"') {
      const end = endOfString(text, at)
      out += text.slice(at, end)
      at = end
      continue
    }
    at += 1
    if (/\s/.test(letter)) continue
    if (letter === '{' || letter === '[') {
      const close = nextMark(text, at)
      if (close !== undefined && (text[close] === '}' || text[close] === ']')) {
        out += letter + text[close]
        at = close + 1
        continue
      }
      depth += 1
      out += letter + line()
    } else if (letter === '}' || letter === ']') {
      depth -= 1
      out += line() + letter
    } else if (letter === ',') {
      out += letter + line()
    } else if (letter === ':') {
      out += ': '
    } else {
      out += letter
    }
  }
  return out
}

/** The same JSON without blanks between its parts. Texts and numbers are copied as they stand. */
export function compact(text: string): string {
  let out = ''
  let at = 0
  while (at < text.length) {
    const end = text[at] === '"' ? endOfString(text, at) : at + 1
    const part = text.slice(at, end)
    if (part.trim() !== '') out += part
    at = end
  }
  return out
}

function nextMark(text: string, start: number): number | undefined {
  for (let at = start; at < text.length; at += 1) if (!/\s/.test(text[at] as string)) return at
  return undefined
}

/** Why `text` is no JSON, with its line counted from 1; undefined where it is. */
export function fault(text: string): { line: number; reason: string } | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    const position = /position (\d+)/.exec(reason)
    const end = position ? Number(position[1]) : text.length
    return { line: text.slice(0, end).split('\n').length, reason: reason.split(' in JSON')[0] as string }
  }
}
