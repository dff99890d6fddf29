// From JSON text to YAML that reads back as the same value. Numbers stay as they are written, which parsed ones would
// not; what YAML could take for something else is quoted. Does not read YAML.
import { items, members } from './json-text'

const PLAIN = /^[A-Za-z_/][A-Za-z0-9_/.@-]*$/
const RESERVED = /^(true|false|yes|no|on|off|null|nan|inf|y|n)$/i

/** A text as a scalar. */
const scalar = (text: string) => (PLAIN.test(text) && !RESERVED.test(text) ? text : JSON.stringify(text))

/** JSON text as YAML, indented by so many levels. */
export function toYaml(json: string, level = 0): string {
  const text = json.trim()
  const pad = '  '.repeat(level)
  if (text.startsWith('{')) {
    const lines = [...members(text)].map((it) => `${pad}${scalar(String(it.name))}:${below(text.slice(it.value, it.end), level)}`)
    return lines.length === 0 ? '{}' : lines.join('\n')
  }
  if (text.startsWith('[')) {
    const lines = [...items(text)].map((it) => `${pad}-${below(text.slice(it.start, it.end), level)}`)
    return lines.length === 0 ? '[]' : lines.join('\n')
  }
  return text.startsWith('"') ? scalar(JSON.parse(text) as string) : text
}

function below(json: string, level: number): string {
  const text = json.trim()
  const isNested = /^[{[]/.test(text) && !/^(\{\s*\}|\[\s*\])$/.test(text)
  return isNested ? `\n${toYaml(text, level + 1)}` : ` ${toYaml(text, level + 1)}`
}
