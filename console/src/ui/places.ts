/** Screens that the navigation, the palette and the keys lead to. Each is declared by its row in `routes.tsx`. */
import { type AnyRoute, type AnyRouter, useRouter } from '@tanstack/react-router'
import { useOverview } from '../api/live'
import type { Words } from '../words/en'

/** Sections of the navigation, in order, named by their words. */
export const SECTIONS = ['watch', 'gateway', 'shenyu', 'registry', 'manage'] as const

export interface Place {
  section: (typeof SECTIONS)[number]
  title: (words: Words) => string
  /** Letter that leads to the screen after `g`. */
  key?: string
  /** Address, unless it is the path of the row. */
  to?: string
  /** Whether the navigation shows it only where all of its section is asked for. */
  isRare?: boolean
}

declare module '@tanstack/react-router' {
  interface StaticDataRouteOption {
    places?: Place[]
  }
}

/** All places in the order of the navigation. */
export function placesOf(router: AnyRouter): (Place & { to: string })[] {
  const rows = router.routeTree.children as AnyRoute[]
  const all = rows.flatMap(({ options, fullPath }) => (options.staticData?.places ?? []).map((place: Place) => ({ ...place, to: place.to ?? fullPath })))
  return SECTIONS.flatMap((section) => all.filter((place) => place.section === section))
}

/** Places of this gateway; without ShenYu's unless it serves ShenYu's objects. */
export function usePlaces() {
  const router = useRouter()
  const hasShenyu = useOverview().data?.shenyu === true
  return placesOf(router).filter(({ section }) => section !== 'shenyu' || hasShenyu)
}

/** The place that an address belongs to: the longest one that it begins with. */
export function placeAt<P extends { to: string }>(places: P[], path: string): P | undefined {
  const within = places.filter(({ to }) => (to === '/' ? path === to : path.startsWith(to)))
  return within.sort((one, other) => other.to.length - one.to.length)[0]
}
