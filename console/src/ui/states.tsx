/** The states that screens have in common: heading, loading, error, empty, and badges of state. */
import { Alert, Box, Button, Group, Skeleton, Stack, Text, Title } from '@mantine/core'
import { type ReactNode, useEffect, useRef, useState } from 'react'
import { ApiError, Unreachable } from '../api/client'
import { useWords } from '../words/words'
import { CopyButton } from './copy'
import { Icon, type IconName } from './icons'
import { Time } from './time'

/** What stands over every screen: its one heading, which takes the focus, and what can be done. */
export function ScreenHead({ title, children, note, isFieldFirst = false }: { title: string; children?: ReactNode; note?: ReactNode; isFieldFirst?: boolean }) {
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Tollhouse`
    // A screen that begins with a question has put the focus on its field, and a dialog that was opened meanwhile keeps it.
    if (!isFieldFirst && document.querySelector('[role=dialog]') === null) heading.current?.focus({ preventScroll: true })
  }, [title, isFieldFirst])
  return (
    <Stack gap={4} mb="md">
      <Group justify="space-between" wrap="wrap" gap="xs" align="center">
        <Title order={1} size="h2" tabIndex={-1} ref={heading} className="heading">{title}</Title>
        {children && <Group gap="xs">{children}</Group>}
      </Group>
      {note && <Text c="dimmed" size="sm" maw={900}>{note}</Text>}
    </Stack>
  )
}

/** Nothing for a moment, then a shape: an answer within 150 ms makes nothing flicker. */
export function Loading({ rows = 6 }: { rows?: number }) {
  const [shows, setShows] = useState(false)
  const words = useWords()
  useEffect(() => {
    const timer = setTimeout(() => setShows(true), 150)
    return () => clearTimeout(timer)
  }, [])
  if (!shows) return null
  return (
    <Stack gap="xs" role="status" aria-label={words.loading}>
      {Array.from({ length: rows }, (_, at) => <Skeleton key={at} height={28} />)}
    </Stack>
  )
}

/** What the gateway said, word for word. `since` is when what still stands below was read, in milliseconds of Unix time; 0 where nothing does. */
export function ErrorBox({ error, retry, since = 0 }: { error: unknown; retry?: () => void; since?: number }) {
  const words = useWords()
  const isAway = error instanceof Unreachable
  const text = error instanceof Error ? error.message : String(error)
  return (
    <Alert color="red" variant="light" role="alert" mb="md" title={isAway ? words.unreachable : error instanceof ApiError ? `${error.status}` : undefined}>
      <Text lang="en" size="sm" className="wrap">{text}</Text>
      {since > 0 && <Text size="sm">{words.ageOfShown} <Time at={since / 1000} />.</Text>}
      {retry && <Button mt="xs" size="xs" variant="default" onClick={retry}>{words.retry}</Button>}
    </Alert>
  )
}

export function Empty({ children, icon, title }: { children: ReactNode; icon?: IconName; title?: ReactNode }) {
  return (
    <Box className="empty">
      {icon && <span className="empty-icon"><Icon name={icon} size={24} /></span>}
      {title && <Text fw={650} size="lg" mb={4}>{title}</Text>}
      <Text c="dimmed" component="div">{children}</Text>
    </Box>
  )
}

/** A command that is copied as it stands. */
export function Command({ text }: { text: string }) {
  return <div className="command"><code className="example" lang="en">{text}</code><CopyButton text={() => text} /></div>
}

/** Nothing for these filters, and the way back to everything. */
export function NoMatch({ filters, kept, clear }: { filters: (string | undefined)[]; kept?: number; clear: () => void }) {
  const words = useWords()
  const text = filters.filter((it) => it !== undefined && it !== '').join(' ')
  return <Empty>{kept === undefined ? words.noMatch(text) : words.noMatchOf(text, kept)} <Button variant="subtle" size="xs" onClick={clear}>{words.clear}</Button></Empty>
}

export type State = 'good' | 'warn' | 'bad' | 'off'

/** A state is a word, a shape and a colour. */
export function StateBadge({ state, label }: { state: State; label: string }) {
  const shape = { good: '●', warn: '▲', bad: '■', off: '○' }[state]
  return <span className={`state state-${state}`}><i aria-hidden>{shape}</i><span>{label}</span></span>
}

export function StatusBadge({ status }: { status: number }) {
  const words = useWords()
  const state = status >= 500 || status === 0 ? 'bad' : status >= 400 ? 'warn' : 'good'
  return <StateBadge state={state} label={status === 0 ? words.noStatus : String(status)} />
}
