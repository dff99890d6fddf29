import { useQuery } from '@tanstack/react-query'
import { createContext, type ReactNode, useContext } from 'react'
import { json } from './client'
import type { Who } from './types'

const Context = createContext<Who | undefined>(undefined)

export const useWhoQuery = () =>
  useQuery({
    queryKey: ['who'],
    refetchInterval: 30_000,
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
