/**
 * The half of a sign-in that no other server of this host gets: cookies go to every port, and storage and channels of a
 * page to its own origin only. It is kept by tabs, and ends with the last one: a new tab gets it from one that is open.
 */
const NAME = 'tollhouse-proof'

/** Sent where nobody is signed in: it tells the gateway that its own page asks. */
const NONE = '1'

type Message = { ask: true } | { proof: string }

const channel = new BroadcastChannel(NAME)

const kept = () => sessionStorage.getItem(NAME)

let onGiven: () => void = () => {}

/** Calls this when another tab has given its proof. */
export function whenGiven(call: () => void) {
  onGiven = call
}

channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
  const own = kept()
  if ('ask' in data) {
    if (own !== null) channel.postMessage({ proof: own })
  } else if (own !== data.proof) {
    // The newest sign-in counts: the cookie of all tabs is of it.
    sessionStorage.setItem(NAME, data.proof)
    onGiven()
  }
})
if (kept() === null) channel.postMessage({ ask: true })

export const proof = (): string => kept() ?? NONE

/** Keeps the proof of a new sign-in, and gives it to the other tabs. */
export function keepProof(text: string) {
  sessionStorage.setItem(NAME, text)
  channel.postMessage({ proof: text })
}

export const dropProof = () => sessionStorage.removeItem(NAME)
