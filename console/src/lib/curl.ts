/** A request as people paste it. */
export interface PastedRequest {
  url: string
  method?: string
  headers: string[]
  body?: string
}

/** A text as one word of a shell. */
export const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`

/** Takes a line of a shell apart: blanks, both quotes, and escapes. */
export function shellWords(line: string): string[] {
  const words: string[] = []
  let word: string | undefined
  let quote = ''
  for (let at = 0; at < line.length; at += 1) {
    const letter = line[at] as string
    if (quote === "'") {
      if (letter === quote) quote = ''
      else word += letter
    } else if (letter === '\\') {
      at += 1
      if (line[at] !== '\n') word = (word ?? '') + (line[at] ?? '')
    } else if (quote !== '') {
      if (letter === quote) quote = ''
      else word += letter
    } else if (letter === "'" || letter === '"') {
      quote = letter
      word ??= ''
    } else if (/\s/.test(letter)) {
      if (word !== undefined) words.push(word)
      word = undefined
    } else {
      word = (word ?? '') + letter
    }
  }
  if (word !== undefined) words.push(word)
  return words
}

/** Options of curl that take a value and do not matter here. */
const IGNORED_WITH_VALUE = new Set([
  '-o', '--output', '-u', '--user', '-A', '--user-agent', '--connect-timeout', '-m', '--max-time',
  '--cacert', '--cert', '--key', '--resolve', '-w', '--write-out', '-e', '--referer',
])

/** What a line of curl would send; undefined where it is none. */
export function parseCurl(line: string): PastedRequest | undefined {
  const [program, ...words] = shellWords(line.trim())
  if (program !== 'curl') return undefined
  const request: PastedRequest = { url: '', headers: [] }
  while (words.length > 0) {
    const word = words.shift() as string
    const [option, joined] = splitOption(word)
    const value = () => joined ?? words.shift() ?? ''
    if (option === '-X' || option === '--request') request.method = value()
    else if (option === '-H' || option === '--header') request.headers.push(value())
    else if (/^(-d|--data(-raw|-binary|-ascii|-urlencode)?|--json)$/.test(option)) {
      const more = value()
      request.body = request.body === undefined ? more : `${request.body}&${more}`
      if (option === '--json') request.headers.push('Content-Type: application/json')
    } else if (option === '--url') request.url = value()
    else if (option === '-I' || option === '--head') request.method = 'HEAD'
    else if (IGNORED_WITH_VALUE.has(option)) value()
    else if (!option.startsWith('-')) request.url = word
  }
  if (request.url !== '' && !request.url.includes('://')) request.url = `http://${request.url}`
  return request
}

function splitOption(word: string): [string, string | undefined] {
  if (word.startsWith('--')) {
    const at = word.indexOf('=')
    return at < 0 ? [word, undefined] : [word.slice(0, at), word.slice(at + 1)]
  }
  if (/^-[XHd]./.test(word)) return [word.slice(0, 2), word.slice(2)]
  return [word, undefined]
}
