/** Who checks an instance, and how it is: by its heartbeats, or by nothing at all. */
import { Group, Text } from '@mantine/core'
import { useEffect, useState } from 'react'
import type { RegistryInstance } from '../../api/types'
import { StateBadge } from '../../ui/states'
import { useWords } from '../../words/words'

/** Silence after which an instance is unhealthy, in intervals of its heartbeats. */
const INTERVALS_MAX = 3

/** How late the last heartbeat is: within its interval, within three, or beyond. */
export function latenessOf(ageSeconds: number, ttl: number): 'good' | 'late' | 'silent' {
  return ageSeconds <= ttl + 1 ? 'good' : ageSeconds <= INTERVALS_MAX * ttl ? 'late' : 'silent'
}

/** Seconds of now, once a second; the page's clock and the gateway's may differ by some. */
export function useNow(): number {
  const [now, setNow] = useState(() => Date.now() / 1000)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}

/** State of an instance. One that nothing checks is never called healthy: nobody knows. */
export function InstanceState({ instance }: { instance: RegistryInstance }) {
  const words = useWords()
  const isChecked = instance.ttl_seconds !== null
  return (
    <Group gap={4}>
      {!instance.healthy ? <StateBadge state="bad" label={words.unhealthy} /> : isChecked ? <StateBadge state="good" label={words.healthy} /> : <StateBadge state="off" label={words.naming.notChecked} />}
      {instance.isolated && <StateBadge state="warn" label={words.isolated} />}
    </Group>
  )
}

/** `2 s ago of 5`: when the last heartbeat came, and in which interval it is expected. */
export function CheckedBy({ instance, now }: { instance: RegistryInstance; now: number }) {
  const say = useWords().naming
  const { ttl_seconds: ttl, last_beat: beat } = instance
  if (ttl === null) return <Text span size="sm" c="dimmed" title={say.uncheckedHelp}>{say.unchecked}</Text>
  if (beat === null || beat === undefined) return <span className="beat" title={say.beatHelp(ttl)}><Text span size="sm">{say.noBeat(ttl)}</Text></span>
  const age = Math.max(0, Math.round(now - beat.at_ms / 1000))
  return <span className={`beat ${latenessOf(age, ttl)}`} title={say.beatHelp(ttl)}><Text span size="sm" inherit>{say.beat(age, ttl)}</Text></span>
}

/** The first metadata of an instance; all of them are its title. */
export function Chips({ metadata }: { metadata: Record<string, string> }) {
  const all = Object.entries(metadata).map(([name, value]) => `${name}=${value}`)
  return <span title={all.join('\n')}>{all.slice(0, 2).map((one) => <span key={one} className="chip">{one}</span>)}{all.length > 2 && <Text span size="xs" c="dimmed">+{all.length - 2}</Text>}</span>
}
