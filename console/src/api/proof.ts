/**
 * The half of a sign-in that no other server of this host gets: cookies go to every port, and storage of a page to its
 * own origin only. It ends with the tab.
 */
const NAME = 'tollhouse-proof'

/** Sent where nobody is signed in: it tells the gateway that its own page asks. */
const NONE = '1'

export const proof = (): string => sessionStorage.getItem(NAME) ?? NONE

export const keepProof = (text: string) => sessionStorage.setItem(NAME, text)

export const dropProof = () => sessionStorage.removeItem(NAME)
