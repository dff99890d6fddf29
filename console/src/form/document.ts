/** One document with its steps back, under form and text alike. What it holds is not known here. */
import { useReducer } from 'react'

/** Steps back that are kept: more than anybody takes by hand, and at 1 MiB a document still little. */
const STEPS_MAX = 100

/** Edits of one place within this time are one step back. */
const SAME_EDIT_MS = 1500

interface State { text: string; past: string[]; future: string[]; place: string; at: number }

type Action = { kind: 'edit'; text: string; place: string; at: number } | { kind: 'undo' | 'redo' }

/** What an edit makes of a document and its steps; a reducer, so that it can be tested without a page. */
export function step(state: State, action: Action): State {
  switch (action.kind) {
    case 'edit': {
      if (action.text === state.text) return state
      const isSame = action.place === state.place && action.at - state.at < SAME_EDIT_MS
      const past = isSame ? state.past : [...state.past, state.text].slice(-STEPS_MAX)
      return { text: action.text, past, future: [], place: action.place, at: action.at }
    }
    case 'undo': {
      const text = state.past.at(-1)
      return text === undefined ? state : { ...state, text, past: state.past.slice(0, -1), future: [state.text, ...state.future], place: '' }
    }
    case 'redo': {
      const [text, ...future] = state.future
      return text === undefined ? state : { ...state, text, past: [...state.past, state.text], future, place: '' }
    }
  }
}

export const startState = (text: string): State => ({ text, past: [], future: [], place: '', at: 0 })

/** One document under two views, the form and the text, with one row of steps back. */
export function useDocument(first: string) {
  const [state, dispatch] = useReducer(step, first, startState)
  return {
    text: state.text,
    canUndo: state.past.length > 0,
    canRedo: state.future.length > 0,
    /** `place` names what was edited: typing in one field is one step. */
    edit: (text: string, place: string) => dispatch({ kind: 'edit', text, place, at: Date.now() }),
    undo: () => dispatch({ kind: 'undo' }),
    redo: () => dispatch({ kind: 'redo' }),
  }
}
