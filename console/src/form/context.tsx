/** What all fields of a form share: the text, its faults, its secrets, and how one place is edited. */
import { createContext, type ReactNode, useContext, useMemo } from 'react'
import { type Path, pointerOf, removeAt, renameAt, setAt, textAt } from '../lib/pointer'

/** What the gateway says is wrong at a place. */
export interface Problem { pointer: string; text: string }

interface Form {
  /** The document as text; the last one that could be read. */
  text: string
  problems: Map<string, string[]>
  /** Secrets as they are sealed: they are replaced, and not edited. */
  sealed: ReadonlySet<string>
  /** Whether plugins say who somebody is, as a consumer's do. */
  isIdentity: boolean
  set: (path: Path, json: string) => void
  remove: (path: Path) => void
  rename: (path: Path, name: string) => void
}

const Context = createContext<Form | undefined>(undefined)

export interface FormProps {
  text: string
  problems: Problem[]
  sealed: readonly string[]
  isIdentity: boolean
  edit: (text: string, place: string) => void
  children: ReactNode
}

export function FormProvider({ text, problems, sealed, isIdentity, edit, children }: FormProps) {
  const form = useMemo<Form>(() => {
    const byPlace = new Map<string, string[]>()
    for (const problem of problems) byPlace.set(problem.pointer, [...(byPlace.get(problem.pointer) ?? []), problem.text])
    return {
      text,
      problems: byPlace,
      sealed: new Set(sealed),
      isIdentity,
      set: (path, json) => edit(setAt(text, path, json), pointerOf(path)),
      // Taking something away is a step of its own, whatever was typed there before.
      remove: (path) => edit(removeAt(text, path), `remove ${pointerOf(path)} ${text.length}`),
      rename: (path, name) => edit(renameAt(text, path, name), `rename ${pointerOf(path.slice(0, -1))}`),
    }
  }, [text, problems, sealed, isIdentity, edit])
  return <Context.Provider value={form}>{children}</Context.Provider>
}

export function useForm(): Form {
  const form = useContext(Context)
  if (form === undefined) throw new Error('outside of a form')
  return form
}

/** What is wrong at a place, in the gateway's words. */
export function useFault(path: Path): ReactNode {
  const texts = useForm().problems.get(pointerOf(path))
  return texts && <span lang="en">{texts.join('; ')}</span>
}

/** What is wrong at a place or inside of it, for what has no fields inside. */
export function useFaultBelow(path: Path): ReactNode {
  const own = pointerOf(path)
  const found = [...useForm().problems].filter(([pointer]) => pointer === own || pointer.startsWith(`${own}/`))
  if (found.length === 0) return undefined
  return <span lang="en">{found.map(([pointer, texts]) => `${pointer.slice(own.length + 1)}${pointer === own ? '' : ': '}${texts.join('; ')}`).join('; ')}</span>
}

/** The JSON at a place as it is written. */
export const useText = (path: Path): string | undefined => textAt(useForm().text, path)
