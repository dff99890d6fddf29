/** Metadata as people write them: `name=value`, a line each. */

/** The lines as a table; undefined where one is none. */
export function pairs(text: string): Record<string, string> | undefined {
  const found: Record<string, string> = {}
  for (const line of text.split('\n').map((it) => it.trim()).filter((it) => it !== '')) {
    const at = line.indexOf('=')
    if (at < 1) return undefined
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim()
  }
  return found
}

export const lines = (metadata: Record<string, string>) => Object.entries(metadata).map(([name, value]) => `${name}=${value}`).join('\n')
