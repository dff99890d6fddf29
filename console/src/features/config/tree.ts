/** Files as a tree: the parts of a name between slashes are folders. */

export interface Folder<T> { name: string; path: string; folders: Folder<T>[]; files: { label: string; file: T }[] }

/** The tree of some files; folders and files each in the order of their names. */
export function treeOf<T extends { name: string }>(files: readonly T[]): Folder<T> {
  const root: Folder<T> = { name: '', path: '', folders: [], files: [] }
  const known = new Map<string, Folder<T>>([['', root]])
  const folderAt = (path: string): Folder<T> => {
    const there = known.get(path)
    if (there !== undefined) return there
    const cut = path.lastIndexOf('/')
    const folder: Folder<T> = { name: path.slice(cut + 1), path, folders: [], files: [] }
    known.set(path, folder)
    folderAt(cut < 0 ? '' : path.slice(0, cut)).folders.push(folder)
    return folder
  }
  for (const file of files) {
    const cut = file.name.lastIndexOf('/')
    folderAt(cut < 0 ? '' : file.name.slice(0, cut)).files.push({ label: file.name.slice(cut + 1), file })
  }
  for (const folder of known.values()) {
    folder.folders.sort((a, b) => a.name.localeCompare(b.name))
    folder.files.sort((a, b) => a.label.localeCompare(b.label))
  }
  return root
}

/** Formats by the end of a name, as the registry knows them. */
export const FORMATS = ['properties', 'yaml', 'json', 'xml', 'toml', 'text', 'html'] as const

export function formatOf(name: string): string {
  const end = name.slice(name.lastIndexOf('.') + 1).toLowerCase()
  const other: Record<string, string> = { yml: 'yaml', txt: 'text', conf: 'text' }
  return (FORMATS as readonly string[]).includes(end) ? end : (other[end] ?? 'text')
}

/** The line that a refusal names; undefined where it names none. */
export function lineOf(text: string): number | undefined {
  const found = /line:? (\d+)/i.exec(text)?.[1]
  return found === undefined ? undefined : Number(found)
}

/** The lines of a content that have a text, with their numbers, at most so many. */
export function matchesIn(content: string, text: string, most = 3): { line: number; text: string }[] {
  const wanted = text.toLowerCase()
  const found: { line: number; text: string }[] = []
  for (const [at, line] of content.split('\n').entries()) {
    if (line.toLowerCase().includes(wanted)) found.push({ line: at + 1, text: line.trim() })
    if (found.length === most) break
  }
  return found
}
