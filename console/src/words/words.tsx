/** Which language is spoken, and its words. The words themselves are in files of their own. */
import { MantineThemeProvider } from '@mantine/core'
import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import type { Words } from './en'

/** Each language is a file of its own: a browser fetches the one that is read. */
const LANGUAGES = {
  en: async () => (await import('./en')).en,
  zh: async () => (await import('./zh')).zh,
  // Nobody's language, and in no menu: what is tested with.
  'en-XA': async () => (await import('./pseudo')).pseudo((await import('./en')).en),
}
export type Language = keyof typeof LANGUAGES

/** The choice of language is no secret: it may lie in the browser. */
const STORED_AS = 'tollhouse-language'

interface Chosen {
  words: Words
  language: Language
  choose: (language: Language) => void
}

const Context = createContext<Chosen | undefined>(undefined)

/** The language that was chosen, or else that of the browser. */
export function initialLanguage(): Language {
  const stored = localStorage.getItem(STORED_AS)
  if (stored !== null && Object.hasOwn(LANGUAGES, stored)) return stored as Language
  return navigator.language.startsWith('zh') ? 'zh' : 'en'
}

export const loadWords = (language: Language): Promise<Words> => LANGUAGES[language]()

/** Gives all below it the words of the chosen language; it begins with words that were loaded before. */
export function WordsProvider({ first, children }: { first: { language: Language; words: Words }; children: ReactNode }) {
  const [{ language, words }, set] = useState(first)
  document.documentElement.lang = language
  const choose = useCallback((next: Language) => {
    localStorage.setItem(STORED_AS, next)
    void loadWords(next).then((loaded) => set({ language: next, words: loaded }))
  }, [])
  const chosen = useMemo(() => ({ words, language, choose }), [words, language, choose])
  // What closes a dialog has no text of its own.
  const theme = useMemo(() => {
    const named = { defaultProps: { closeButtonProps: { 'aria-label': words.close } } }
    return { components: { Modal: named, Drawer: named } }
  }, [words])
  return <Context.Provider value={chosen}><MantineThemeProvider theme={theme}>{children}</MantineThemeProvider></Context.Provider>
}

/** The words of the chosen language. */
export const useWords = () => useLanguage().words

/** The chosen language, and how to choose another. */
export function useLanguage(): Chosen {
  const chosen = useContext(Context)
  if (chosen === undefined) throw new Error('outside of the words')
  return chosen
}
