import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from 'react'
import { en, type Words } from './en'
import { zh } from './zh'

const LANGUAGES = { en, zh }
export type Language = keyof typeof LANGUAGES

/** The choice of language is no secret: it may lie in the browser. */
const STORED_AS = 'tollhouse-language'

interface Chosen {
  words: Words
  language: Language
  choose: (language: Language) => void
}

const Context = createContext<Chosen>({ words: en, language: 'en', choose: () => {} })

function initial(): Language {
  const stored = localStorage.getItem(STORED_AS)
  if (stored === 'en' || stored === 'zh') return stored
  return navigator.language.startsWith('zh') ? 'zh' : 'en'
}

/** Gives all below it the words of the chosen language. */
export function WordsProvider({ children }: { children: ReactNode }) {
  const [language, setLanguage] = useState<Language>(initial)
  document.documentElement.lang = language
  const choose = useCallback((next: Language) => {
    localStorage.setItem(STORED_AS, next)
    setLanguage(next)
  }, [])
  const chosen = useMemo(
    () => ({ words: LANGUAGES[language], language, choose }),
    [language, choose],
  )
  return <Context.Provider value={chosen}>{children}</Context.Provider>
}

/** The words of the chosen language. */
export const useWords = () => useContext(Context).words

/** The chosen language, and how to choose another. */
export const useLanguage = () => useContext(Context)
