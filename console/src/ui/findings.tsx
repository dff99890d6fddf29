/** What is wrong with the gateway, the worst first: since when, what changed before it, and what helps. */
import { Anchor, Button, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { useChange } from '../api/changes'
import { type Finding, pageOf } from '../api/types'
import { segmentOf } from '../lib/segment'
import type { Words } from '../words/en'
import { useWords } from '../words/words'
import { kindWord } from './change'
import { Inline } from './markdown'
import { useRefusal } from './permission'
import { StateBadge } from './states'
import { Time } from './time'
import { Undoing } from './undo'

const STATES = { problem: 'bad', warning: 'warn', note: 'off' } as const

/** Findings that are shown before somebody asks for all. */
const SHOWN = 4

export function Findings({ findings }: { findings: Finding[] }) {
  const words = useWords()
  const [isWhole, setWhole] = useState(false)
  const shown = isWhole ? findings : findings.slice(0, SHOWN)
  return (
    <>
      {shown.map((finding) => <Row key={`${finding.kind} ${finding.subject}`} finding={finding} />)}
      {findings.length > shown.length && <div className="finding"><Button size="xs" variant="default" onClick={() => setWhole(true)}>{words.allFindings(findings.length)}</Button></div>}
    </>
  )
}

function Row({ finding }: { finding: Finding }) {
  const words = useWords()
  const { change, requests, subject } = finding
  const page = finding.kind === 'route_missing' ? undefined : subjectPage(subject)
  return (
    <article className={`finding ${STATES[finding.severity]}`}>
      <StateBadge state={STATES[finding.severity]} label={words.severities[finding.severity]} />
      <div className="wrap">
        <Text size="sm" fw={600} lang="en" className="finding-what"><Inline text={finding.what} /></Text>
        <Text size="sm" c="dimmed" component="div">
          {finding.since_ms !== null && <>{words.sinceTime} <Time at={finding.since_ms / 1000} stands /></>}
          {change && (
            <> · {words.lastChange} {change.name.includes('-') ? <Anchor component={Link} to={`/changes/${change.name}`} className="mono" td="underline" title={change.path}>{pathWord(words, change.path)}</Anchor> : <span className="mono" title={change.path}>{pathWord(words, change.path)}</span>}
              {' '}<span>{words.deeds[change.deed as keyof typeof words.deeds] ?? change.deed}</span>{change.actor && ` ${words.byActor(change.actor)}`}{finding.since_ms !== null && `, ${words.before(Math.max(0, finding.since_ms - change.at_ms) / 1000)}`}</>
          )}
        </Text>
        {finding.remedy && <Text size="sm" lang="en" mt={2} className="finding-help"><Inline text={finding.remedy} /></Text>}
      </div>
      <div className="finding-acts">
        {requests && <Requests query={requests} label={words.failingRequests} />}
        {page && <Button size="xs" variant="default" component={Link} to={page}>{words.openObject}</Button>}
        {change && isCulprit(finding) && <UndoButton name={change.name} path={change.path} />}
      </div>
    </article>
  )
}

/** Time before a problem in which the last change is likely its cause, in milliseconds. */
const NEAR_MS = 10 * 60 * 1000

/** Whether undoing the last change is worth offering: it is of the object at fault, or came shortly before requests began to fail. */
export function isCulprit({ change, subject, since_ms, severity }: Pick<Finding, 'change' | 'subject' | 'since_ms' | 'severity'>): boolean {
  if (change === null) return false
  if (subject === change.path || subject.startsWith(`${change.path} `) || subject.startsWith(`${change.path}.`)) return true
  return severity === 'problem' && since_ms !== null && since_ms - change.at_ms <= NEAR_MS
}

/** Letters of a path that are shown. */
const PATH_LETTERS = 36

const short = (path: string) => (path.length > PATH_LETTERS ? `${path.slice(0, PATH_LETTERS)}…` : path)

/** An object of the gateway by its path; one of the registry, whose id may be generated, by its kind. */
const pathWord = (words: Words, path: string) => (path.startsWith('registry/') ? kindWord(words, 'registry', path.slice('registry/'.length)) : short(path))

/** The page of the object that a finding is about, such as `routes/1 10.0.0.7:80`. */
function subjectPage(subject: string): string | undefined {
  const [, namespace, service] = /^registry ([^/\s]+)\/(\S+)$/.exec(subject) ?? []
  if (namespace !== undefined && service !== undefined) return `/registry/${segmentOf(namespace)}/${segmentOf(service)}`
  const [, kind, id] = /^([a-z_]+)\/([^\s.[]+)/.exec(subject) ?? []
  return kind === undefined || id === undefined ? undefined : pageOf(kind, id)
}

/** Undoes the change in place, where the gateway would do it. */
function UndoButton({ name, path }: { name: string; path: string }) {
  const words = useWords()
  const mayNot = useRefusal()
  const { data } = useChange(name, 30_000)
  const [isOpen, setOpen] = useState(false)
  if (data === undefined || mayNot !== undefined || data.undo_refused || !data.is_newest) return null
  return (
    <>
      <Button size="xs" variant={data.deed === 'create' ? 'default' : 'filled'} onClick={() => setOpen(true)} aria-label={words.undoOf(path)}>{words.undoThis}</Button>
      {isOpen && <Undoing change={data} close={() => setOpen(false)} />}
    </>
  )
}

function Requests({ query, label }: { query: NonNullable<Finding['requests']>; label: string }) {
  const { command: _command, ...search } = query
  return <Button size="xs" variant="default" component={Link} to="/requests" search={search as never}>{label}</Button>
}
