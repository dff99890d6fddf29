/** Finds text anywhere in a name, letters of a pattern taken as they stand. */
export const pattern = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
