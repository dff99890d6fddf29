/** Who is signed in, asked for every two seconds. Signing in itself is in `ui/gate.tsx`. */
import { useQuery } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext } from 'react'
import { json } from './client'
import type { Who } from './types'

const Context = createContext<Who | undefined>(undefined)

export const useWhoQuery = () =>
  useQuery({
    queryKey: ['who'],
    // Also what tells soon that nobody answers any more, that the key is no longer one, and that the page is an older one.
    refetchInterval: 2000,
    queryFn: ({ signal }) => json<Who>('/console/v1/login', { signal }),
  })

export function SessionProvider({ who, children }: { who: Who; children: ReactNode }) {
  return <Context.Provider value={who}>{children}</Context.Provider>
}

export function useWho(): Who {
  const who = useContext(Context)
  if (who === undefined) throw new Error('outside of a session')
  return who
}
