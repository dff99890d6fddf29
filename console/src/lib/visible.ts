/** Letters that show nothing, or turn what stands beside them: controls, and those that set the direction of a text. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu

const encoded = (letters: string) => encodeURIComponent(letters)

/** A text that strangers have chosen, with a letter that cannot be seen as it goes over the wire: `%1B`. */
export const visible = (text: string) => text.replace(UNSEEN, encoded)

/** A decoded path as a URL has it, so that what is read back of it is the same path. */
export const pathInUrl = (path: string) => path.replace(/[%?#\s"<>\\^`{|}]/gu, encoded).replace(UNSEEN, encoded)
