/**
 * The half of a sign-in that no other server of this host gets: cookies go to every port, and storage and channels of a
 * page to its own origin only. It is kept by tabs, and ends with the last one: a new tab gets it from one that is open.
 */
const NAME = 'tollhouse-proof'

/** Sent where nobody is signed in: it tells the gateway that its own page asks. */
const NONE = '1'

type Message = { ask: true } | { proof: string }

let channel: BroadcastChannel | undefined

const kept = () => sessionStorage.getItem(NAME)

export const proof = (): string => kept() ?? NONE

/** Shares the proof with the other tabs, and calls this when one has given its own. Returns what ends it. */
export function shareProof(onGiven: () => void): () => void {
  const own = new BroadcastChannel(NAME)
  channel = own
  own.addEventListener('message', ({ data }: MessageEvent<Message>) => {
    const mine = kept()
    if ('ask' in data) {
      if (mine !== null) own.postMessage({ proof: mine })
    } else if (mine !== data.proof) {
      // The newest sign-in counts: the cookie of all tabs is of it.
      sessionStorage.setItem(NAME, data.proof)
      onGiven()
    }
  })
  if (kept() === null) own.postMessage({ ask: true })
  return () => own.close()
}

/** Keeps the proof of a new sign-in, and gives it to the other tabs. */
export function keepProof(text: string) {
  sessionStorage.setItem(NAME, text)
  channel?.postMessage({ proof: text })
}

export const dropProof = () => sessionStorage.removeItem(NAME)
