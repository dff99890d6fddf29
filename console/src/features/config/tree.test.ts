import { describe, expect, it } from 'vitest'
import { formatOf, lineOf, matchesIn, treeOf } from './tree'

describe('files as a tree', () => {
  it('has folders for the parts of names, in order, and every file once', () => {
    const files = ['b.yaml', 'db/main/pool.yaml', 'db/url', 'a.yaml', '/odd', 'db//x'].map((name) => ({ name }))
    const root = treeOf(files)
    expect(root.files.map((it) => it.label)).toEqual(['a.yaml', 'b.yaml', 'odd'])
    expect(root.folders.map((it) => it.path)).toEqual(['db'])
    const db = root.folders[0]
    expect(db?.folders.map((it) => it.name)).toEqual(['', 'main'])
    expect(db?.files.map((it) => it.file.name)).toEqual(['db/url'])
    const count = (folder: typeof root): number => folder.files.length + folder.folders.reduce((sum, it) => sum + count(it), 0)
    expect(count(root)).toBe(files.length)
  })
})

describe('what is said of a file', () => {
  it('guesses the format by the end of the name', () => {
    expect(['a.yml', 'a.JSON', 'a.properties', 'Dockerfile', 'a.conf'].map(formatOf)).toEqual(['yaml', 'json', 'properties', 'text', 'text'])
  })
  it('finds the line that a refusal names', () => {
    expect(lineOf('the content is not json: expected `,` at line 3 column 7; force=true publishes it')).toBe(3)
    expect(lineOf('error: line 12 column 1')).toBe(12)
    expect(lineOf('no place')).toBeUndefined()
  })
  it('shows the lines that have a text, whatever the case', () => {
    expect(matchesIn('a: 1\n  Pool: 2\npool\nx\npool', 'POOL', 2)).toEqual([{ line: 2, text: 'Pool: 2' }, { line: 3, text: 'pool' }])
  })
})
