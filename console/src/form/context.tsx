/** What all fields of a form share: the text, its faults, its secrets, and how one place is edited. */
import { createContext, type ReactNode, useContext, useMemo } from 'react'
import { type Path, pointerOf, removeAt, renameAt, setAt, textAt } from '../lib/pointer'

/** What the gateway says is wrong at a place, and what was probably meant. */
export interface Problem {
  pointer: string
  text: string
  hint?: string
  /** Title of the field, where the text is the form's own and in the language that is read. */
  title?: string
}

interface Form {
  /** The document as text; the last one that could be read. */
  text: string
  problems: Map<string, Problem[]>
  /** Secrets as they are sealed: they are replaced, and not edited. */
  sealed: ReadonlySet<string>
  /** Whether plugins say who somebody is, as a consumer's do. */
  isIdentity: boolean
  /** Where the object is, such as `upstreams/orders`, whose nodes have a state. */
  place: string | undefined
  set: (path: Path, json: string) => void
  remove: (path: Path) => void
  rename: (path: Path, name: string) => void
  /** Several edits that are one step back. */
  change: (edits: (text: string) => string, path: Path) => void
}

const Context = createContext<Form | undefined>(undefined)

export interface FormProps {
  text: string
  problems: Problem[]
  sealed: readonly string[]
  isIdentity: boolean
  place?: string
  edit: (text: string, place: string) => void
  children: ReactNode
}

export function FormProvider({ text, problems, sealed, isIdentity, place, edit, children }: FormProps) {
  const form = useMemo<Form>(() => {
    const byPlace = new Map<string, Problem[]>()
    for (const problem of problems) byPlace.set(problem.pointer, [...(byPlace.get(problem.pointer) ?? []), problem])
    return {
      text,
      problems: byPlace,
      sealed: new Set(sealed),
      isIdentity,
      place,
      set: (path, json) => edit(setAt(text, path, json), pointerOf(path)),
      // Taking something away is a step of its own, whatever was typed there before.
      remove: (path) => edit(removeAt(text, path), `remove ${pointerOf(path)} ${text.length}`),
      rename: (path, name) => edit(renameAt(text, path, name), `rename ${pointerOf(path.slice(0, -1))}`),
      change: (edits, path) => edit(edits(text), `change ${pointerOf(path)} ${text.length}`),
    }
  }, [text, problems, sealed, isIdentity, place, edit])
  return <Context.Provider value={form}>{children}</Context.Provider>
}

export function useForm(): Form {
  const form = useContext(Context)
  if (form === undefined) throw new Error('outside of a form')
  return form
}

const said = ({ text, hint }: Problem) => (hint === undefined ? text : `${text}; ${hint}`)

/** What is wrong at a place, in the gateway's words. */
export function useFault(path: Path): ReactNode {
  const found = useForm().problems.get(pointerOf(path))
  return found && <span lang={found.every((one) => one.title !== undefined) ? undefined : 'en'}>{found.map(said).join('; ')}</span>
}

/** What is wrong at a place or inside of it, for what has no fields inside. */
export function useFaultBelow(path: Path): ReactNode {
  const own = pointerOf(path)
  const found = [...useForm().problems].filter(([pointer]) => pointer === own || pointer.startsWith(`${own}/`))
  if (found.length === 0) return undefined
  return <span lang="en">{found.map(([pointer, problems]) => `${pointer.slice(own.length + 1)}${pointer === own ? '' : ': '}${problems.map(said).join('; ')}`).join('; ')}</span>
}

/** Whether something is wrong at one of these members or inside of it. */
export function useHasFault(path: Path, names: string[]): boolean {
  const { problems } = useForm()
  const places = names.map((name) => pointerOf([...path, name]))
  return [...problems.keys()].some((pointer) => places.some((place) => pointer === place || pointer.startsWith(`${place}/`)))
}

/** The JSON at a place as it is written. */
export const useText = (path: Path): string | undefined => textAt(useForm().text, path)
