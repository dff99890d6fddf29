/** The small tools: diffs, curl lines, JSON text, YAML, words. */
import { describe, expect, it } from 'vitest'
import { pageOf } from '../api/types'
import { en } from '../words/en'
import { zh } from '../words/zh'
import { parseCurl, quoted, shellWords } from './curl'
import { diffLines, excerpt } from './diff'
import { fault, memberText, pretty, withoutMembers } from './json-text'
import { pathAt, pointerOf } from './pointer'
import { pathInUrl, visible } from './visible'

describe('JSON as text', () => {
  it('keeps numbers, order and escapes as they stand', () => {
    const text = '{"b":12345678901234567890,"a":1.0,"t":"\\u0041\\"}{","e":{},"l":[ ],"n":[1,{"x":null}]}'
    const shown = pretty(text)
    expect(shown).toContain('12345678901234567890')
    expect(shown).toContain('"a": 1.0')
    expect(shown).toContain('"\\u0041\\"}{"')
    expect(shown).toContain('"e": {}')
    expect(shown).toContain('"l": []')
    expect(JSON.parse(shown)).toEqual(JSON.parse(text))
    expect(pretty(shown)).toBe(shown)
  })

  it('finds a member without reading the others as values', () => {
    const text = '{"key":"/a","value":{"n":1e400,"s":"}"},"modifiedIndex":17}\n'
    expect(memberText(text, 'value')).toBe('{"n":1e400,"s":"}"}')
    expect(memberText(text, 'modifiedIndex')).toBe('17')
    expect(memberText(text, 'key')).toBe('"/a"')
    expect(memberText(text, 'none')).toBeUndefined()
    expect(memberText('{}', 'none')).toBeUndefined()
  })

  it('leaves members out and the others as they stand', () => {
    const text = '{"create_time":1, "n":1.0,"o":{"create_time":2} ,"update_time":3}'
    expect(withoutMembers(text, ['create_time', 'update_time'])).toBe('{"n":1.0,"o":{"create_time":2}}')
    expect(withoutMembers('{}', ['a'])).toBe('{}')
    expect(withoutMembers('{"a":1}', ['a'])).toBe('{}')
  })

  it('names the line of a fault', () => {
    expect(fault('{"a": 1}')).toBeUndefined()
    expect(fault('{\n"a": 1,\n}')?.line).toBe(3)
    expect(fault('')?.line).toBe(1)
  })
})

describe('differences', () => {
  it('has one line for one changed line', () => {
    const lines = diffLines('a\nb\nc\nd', 'a\nb\nx\nd')
    expect(lines.filter((line) => line.kind !== 'same').map((line) => line.text)).toEqual(['c', 'x'])
  })

  it('gives both texts back', () => {
    const texts = ['', 'a', 'a\nb\na', 'b\na\nc', 'a\na\na\nb', 'x\ny']
    for (const before of texts) {
      for (const after of texts) {
        const lines = diffLines(before, after)
        const side = (kind: string) => lines.filter((it) => it.kind === 'same' || it.kind === kind).map((it) => it.text)
        expect(side('gone').join('\n')).toBe(before)
        expect(side('new').join('\n')).toBe(after)
      }
    }
  })

  it('leaves out what is far from a change', () => {
    const before = Array.from({ length: 40 }, (_, at) => `l${at}`)
    const after = before.with(20, 'new')
    const kept = excerpt(diffLines(before.join('\n'), after.join('\n')), 1)
    expect(kept).toHaveLength(6)
    expect(kept[0]).toBeNull()
  })
})

describe('curl lines', () => {
  it('are taken apart as a shell does', () => {
    expect(shellWords(`a 'b c' "d \\" e" f\\ g \\\n h''i`)).toEqual(['a', 'b c', 'd " e', 'f g', 'hi'])
  })

  it('fill the form', () => {
    const line = `curl -s -XPOST http://h:9080/x?y=1 -H 'A: b' --header="C: d" -d '{"k":1}' -o /dev/null`
    expect(parseCurl(line)).toEqual({
      url: 'http://h:9080/x?y=1', method: 'POST', headers: ['A: b', 'C: d'], body: '{"k":1}',
    })
    expect(parseCurl('curl -I h/x')).toEqual({ url: 'http://h/x', method: 'HEAD', headers: [] })
    expect(parseCurl('wget http://h')).toBeUndefined()
  })

  it('come back as they were quoted', () => {
    for (const text of ["it's", '$(x)', 'a\nb', '"', '\\']) {
      expect(shellWords(quoted(text))).toEqual([text])
    }
  })
})

describe('texts of strangers', () => {
  it('show each letter, and none that turns others around', () => {
    expect(visible('/\u001b[31m red\n\u202e<b>路')).toBe('/%1B[31m red%0A%E2%80%AE<b>路')
  })

  it('go into a URL as the path that they are', () => {
    for (const path of ['/a?b#c%20', '/\u001b[31m red\n', '/plain/7', '/路 x', '/"<>\\^`{|}', '/\u202e']) {
      expect(decodeURIComponent(new URL(`http://a${pathInUrl(path)}`).pathname)).toBe(path)
    }
    expect(pathInUrl('/orders/7')).toBe('/orders/7')
  })
})

describe('places of objects', () => {
  it('are pages of their own, or of what they lie below', () => {
    const cases: [string, string, string | undefined][] = [
      ['routes', '1', '/objects/routes/1'], ['consumers', 'jack/credentials/first', '/objects/consumers/jack'], ['secrets', 'vault/1', '/objects/secrets/vault%2F1'],
      ['secrets', 'vault/a b%', '/objects/secrets/vault%2Fa%20b%25'], ['secrets', 'vault', undefined], ['registry', 'default/orders', undefined], ['routes', '', undefined],
    ]
    for (const [kind, id, expected] of cases) expect(pageOf(kind, id), `${kind} ${id}`).toBe(expected)
  })

  it('are pointers and paths, one the other', () => {
    for (const path of [['a', 'b/c', 'm~n'], ['plugins', 'key-auth', 'key'], []]) expect(pathAt(pointerOf(path))).toEqual(path)
  })
})

describe('words', () => {
  it('are translated, but for what is the same in all languages', () => {
    const same = new Set(['newId', 'id', 'key', 'copyCurl', 'copyJson', 'json', 'url', 'fingerprint'])
    for (const [name, text] of Object.entries(en)) {
      const other = zh[name as keyof typeof zh]
      if (typeof text === 'string' && !same.has(name)) expect(other, name).not.toBe(text)
    }
  })
})
