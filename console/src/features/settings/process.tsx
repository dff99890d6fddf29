/** The process itself: its findings and its log. */
import { Button, Group, NativeSelect, Stack, Switch, Text } from '@mantine/core'
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useState } from 'react'
import { call, json } from '../../api/client'
import { useWho } from '../../api/session'
import type { Finding } from '../../api/types'
import { visible } from '../../lib/visible'
import { Findings } from '../../ui/findings'
import { Empty, ErrorBox, Loading } from '../../ui/states'
import { useWords } from '../../words/words'

/** What somebody should look at, with what helps. */
export function Doctor() {
  const words = useWords()
  const found = useQuery({
    queryKey: ['doctor'],
    refetchInterval: 10_000,
    queryFn: ({ signal }) => json<{ findings: Finding[] }>('/console/v1/doctor', { signal }),
  })
  if (found.isError) return <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />
  if (found.data === undefined) return <Loading />
  if (found.data.findings.length === 0) return <Empty>{words.noFindings}</Empty>
  return <section className="card findings"><Findings findings={found.data.findings} /></section>
}

interface Line { number: number; at_ms: number; text: string }
interface LogLevel { level: string; configured: string; seconds_left: number | null }

/** As many lines as the gateway keeps. */
const LINES_KEPT = 500
const LEVELS = ['error', 'warn', 'info', 'debug', 'trace']

/** The last lines of the process' own log, and its level, which can be another one for a while. */
export function ProcessLog() {
  const words = useWords()
  const who = useWho()
  const client = useQueryClient()
  const [follows, follow] = useState(true)
  const [error, setError] = useState<unknown>()
  const box = useRef<HTMLPreElement>(null)
  const refused = who.role === 'admin' ? undefined : words.adminOnly
  const lines = useQuery({
    queryKey: ['log'],
    enabled: refused === undefined,
    refetchInterval: follows ? 1000 : false,
    queryFn: async ({ signal }): Promise<{ next: number; lines: Line[] }> => {
      const known = client.getQueryData<{ next: number; lines: Line[] }>(['log'])
      const fresh = await json<{ next: number; lines: Line[] }>(`/console/v1/log/lines?from=${known?.next ?? 0}`, { signal })
      // A process that was started anew counts anew.
      if (known && fresh.next < known.next) return json('/console/v1/log/lines', { signal })
      return { next: fresh.next, lines: [...(known?.lines ?? []), ...fresh.lines].slice(-LINES_KEPT) }
    },
  })
  const level = useQuery({ queryKey: ['log-level'], refetchInterval: 5000, queryFn: ({ signal }) => json<LogLevel>('/console/v1/log', { signal }) })
  useEffect(() => {
    if (follows && box.current) box.current.scrollTop = box.current.scrollHeight
  }, [lines.data, follows])
  const set = async (next: string) => {
    setError(undefined)
    try {
      await call('/console/v1/log', { method: 'PUT', body: JSON.stringify({ level: next, seconds: 600 }) })
    } catch (reason) {
      setError(reason)
    }
    await client.invalidateQueries({ queryKey: ['log-level'] })
  }
  const now = level.data
  return (
    <Stack>
      <Group align="flex-end">
        <NativeSelect label={words.logLevel} value={now?.level ?? ''} disabled={refused !== undefined || now === undefined} title={refused}
          data={now ? [...new Set([now.level, now.configured, ...LEVELS])] : ['']} onChange={(event) => void set(event.currentTarget.value)} />
        {now?.seconds_left != null && <Text size="sm" c="dimmed">{words.levelFallsBack(now.configured, Math.ceil(now.seconds_left / 60))}</Text>}
        <Switch label={words.follow} checked={follows} onChange={(event) => follow(event.currentTarget.checked)} />
        <Button variant="default" disabled={refused !== undefined} title={refused} onClick={() => void call('/console/v1/reload', { method: 'POST' }).catch(setError)}>{words.reloadResources}</Button>
      </Group>
      {error !== undefined && <ErrorBox error={error} />}
      {refused !== undefined ? <Empty>{refused}</Empty> : lines.isError ? <ErrorBox error={lines.error} retry={() => void lines.refetch()} /> : lines.data === undefined ? <Loading /> : (
        <pre className="code" tabIndex={0} lang="en" ref={box} aria-label={words.log}>{lines.data.lines.map((line) => visible(line.text)).join('\n')}</pre>
      )}
    </Stack>
  )
}
