/** The navigation: groups of screens, each with its icon. Groups fold, and all of it shrinks to icons. */
import { Burger, UnstyledButton } from '@mantine/core'
import { Link, useRouterState } from '@tanstack/react-router'
import { useWords } from '../words/words'
import { Icon, iconOf, Logo } from './icons'
import { toggleFold, toggleRail, useLayout } from './layout'
import { type Place, placeAt, SECTIONS, usePlaces } from './places'

type At = Place & { to: string }

export function Navigation({ isOpen, close, toggle }: { isOpen: boolean; close: () => void; toggle: () => void }) {
  const words = useWords()
  const path = useRouterState({ select: (state) => state.location.pathname })
  const { isRail, folded } = useLayout()
  const places = usePlaces()
  const here = placeAt(places, path)?.to
  return (
    <>
      <div className="nav-head">
        <Link to="/" className="brand" onClick={close} aria-label="Tollhouse"><Logo /><span className="nav-text">Tollhouse</span></Link>
        {isOpen && <Burger className="only-mobile" opened onClick={toggle} size="sm" color="#fff" aria-label={words.menu} />}
      </div>
      <div className={folded.includes('more') ? 'nav-body' : 'nav-body whole'}>
        {SECTIONS.map((section) => {
          const own = places.filter((place) => place.section === section)
          return own.length > 0 && <Section key={section} name={section} title={words[section]} places={own} here={here} close={close} />
        })}
      </div>
      <UnstyledButton className="nav-item nav-foot" onClick={toggleRail} aria-expanded={!isRail} aria-label={isRail ? words.navWiden : words.navShrink} title={isRail ? words.navWiden : undefined}>
        <Icon name="rail" /><span className="nav-text">{words.navShrink}</span>
      </UnstyledButton>
    </>
  )
}

interface SectionProps { name: string; title: string; places: At[]; here: string | undefined; close: () => void }

/** A group; where the screen in sight is inside of it, it is open whatever was chosen. */
function Section({ name, title, places, here, close }: SectionProps) {
  const words = useWords()
  const { folded, isRail } = useLayout()
  const hasHere = places.some(({ to }) => to === here)
  const isOpen = isRail || hasHere || !folded.includes(name)
  const rare = places.filter(({ isRare }) => isRare)
  const item = (place: At) => <Item key={place.to} place={place} isHere={place.to === here} close={close} />
  const hasRare = rare.some(({ to }) => to === here) || !folded.includes('more')
  return (
    <section className="nav-section">
      <UnstyledButton className="nav-title" aria-expanded={isOpen} onClick={() => toggleFold(name)}>
        <span>{title}</span><span className={isOpen ? 'turn open' : 'turn'}><Icon name="chevron" size={12} /></span>
      </UnstyledButton>
      {isOpen && places.filter(({ isRare }) => !isRare).map(item)}
      {isOpen && rare.length > 0 && (
        <>
          <UnstyledButton className="nav-item nav-more" aria-expanded={hasRare} onClick={() => toggleFold('more')}>
            <span className={hasRare ? 'turn open' : 'turn'}><Icon name="chevron" size={14} /></span><span className="nav-text">{words.navMore}</span>
          </UnstyledButton>
          {hasRare && rare.map(item)}
        </>
      )}
    </section>
  )
}

function Item({ place, isHere, close }: { place: At; isHere: boolean; close: () => void }) {
  const words = useWords()
  const { isRail } = useLayout()
  const title = place.title(words)
  return (
    <Link to={place.to} className={isHere ? 'nav-item here' : 'nav-item'} aria-current={isHere ? 'page' : undefined} onClick={close} title={isRail ? title : undefined} activeOptions={{ exact: true }} activeProps={{}}>
      <Icon name={iconOf(place)} /><span className="nav-text">{title}</span>
    </Link>
  )
}
