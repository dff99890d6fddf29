/** Letters that nobody takes for one another, 32 of them, so that each is five bits and none is likelier. */
const LETTERS = 'abcdefghijkmnpqrstuvwxyz23456789'

/** A secret that nobody guesses: 160 bits unless told otherwise. Browsers have these random numbers on plain HTTP too. */
export function newSecret(letters = 32): string {
  const bytes = crypto.getRandomValues(new Uint8Array(letters))
  return Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('')
}
