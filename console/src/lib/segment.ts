/**
 * Names as one part of an address of this page. What a part of a path may not be (a slash, an escape, `..`) would be
 * taken for a way, by the browser or on the way here; it is written as `~` and its bytes, and read back as it was.
 * Letters of all languages stay as they are. Addresses of the API are not made here: there `%2F` is read as it is meant.
 */

const hex = (text: string) => [...new TextEncoder().encode(text)].map((byte) => `~${byte.toString(16).padStart(2, '0')}`).join('')

/** The name as one part of a path. */
export function segmentOf(name: string): string {
  const safe = name.replace(/[^\p{L}\p{N}_.-]/gu, hex)
  // `.` and `..` are ways, whatever stands around them.
  return /^\.+$/.test(safe) ? hex(safe) : safe === '' ? '~' : safe
}

/** The reverse; what was not made here is taken as it stands. */
export function nameOf(segment: string): string {
  if (segment === '~') return ''
  return segment.replace(/(?:~[0-9a-f]{2})+/g, (bytes) => {
    try {
      const numbers = bytes.slice(1).split('~').map((byte) => Number.parseInt(byte, 16))
      return new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array(numbers))
    } catch {
      return bytes
    }
  })
}
