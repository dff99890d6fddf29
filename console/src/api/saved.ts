/** What was saved last, so that the page can say so wherever it leads and offer to take it back. */
export interface Saving { kind: string; id: string }

let listener: (saving: Saving) => void = () => {}

export function onSaved(call: (saving: Saving) => void) {
  listener = call
}

export const announce = (saving: Saving) => listener(saving)
