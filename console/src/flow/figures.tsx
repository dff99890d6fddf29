/** What a box of a picture takes: requests a second, how many of them fail, and how long they take. */
import { Link } from '@tanstack/react-router'
import type { Refusals } from '../api/rates'
import type { RequestSearch } from '../routes'
import { useWords } from '../words/words'

export interface FiguresOf { rate: number; failed_rate: number; p99_ms?: number | null }

/** The figures as one link to the requests that they count; failures have one of their own. */
export function Figures({ of, search }: { of: FiguresOf | undefined; search: RequestSearch }) {
  const words = useWords()
  if (of === undefined) return <div className="figures"><span>{words.noRequestsNow}</span></div>
  return (
    <div className="figures">
      <Link to="/requests" search={search as never}><b>{words.perSecond(of.rate)}</b></Link>
      {of.failed_rate > 0 && <Link to="/requests" search={{ ...search, status: '5xx' } as never} className="failing"><b>{words.percentFail(of.rate, of.failed_rate)}</b></Link>}
      {of.p99_ms !== null && of.p99_ms !== undefined && <span>p99 <b>{words.ms(of.p99_ms)}</b></span>}
    </div>
  )
}

/** What a plugin refuses of the requests of a route, as a link to the refused ones; nothing where it refused none. */
export function Refused({ of, route, all }: { of: Refusals | undefined; route: string; all: number }) {
  const words = useWords()
  if (of === undefined) return null
  return (
    <div className="figures">
      <Link to="/requests" search={{ route, q: of.plugin } as never} className={of.rate > 0 ? 'failing' : undefined}>
        <b>{of.rate > 0 ? words.refusedNow(of.rate, all) : words.refusedSince(of.requests)}</b>
      </Link>
    </div>
  )
}
