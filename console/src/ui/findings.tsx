/** What is wrong with the gateway, the worst first, as the server tells it. */
import { Anchor, Group, Stack, Text } from '@mantine/core'
import { Link } from '@tanstack/react-router'
import type { Finding } from '../api/types'
import { useWords } from '../words/words'
import { StateBadge } from './states'
import { Time } from './time'

const STATES = { problem: 'bad', warning: 'warn', note: 'off' } as const

export function Findings({ findings }: { findings: Finding[] }) {
  const words = useWords()
  return (
    <Stack gap="sm">
      {findings.map((finding) => (
        <Group key={`${finding.kind} ${finding.subject}`} gap="xs" wrap="nowrap" align="flex-start">
          <StateBadge state={STATES[finding.severity]} label={words.severities[finding.severity]} />
          <div className="wrap">
            <Text size="sm" lang="en">{finding.what}</Text>
            <Text size="xs" c="dimmed">
              {finding.since_ms !== null && <>{words.since} <Time at={finding.since_ms / 1000} /></>}
              {finding.change && <> · {words.changeBefore} <span className="mono">{finding.change.path}</span> <Time at={finding.change.at_ms / 1000} />{finding.change.actor && ` (${finding.change.actor})`}</>}
              {finding.requests && <> · <Requests query={finding.requests} label={words.requests} /></>}
            </Text>
            {finding.remedy && <Text size="xs" lang="en">{finding.remedy}</Text>}
          </div>
        </Group>
      ))}
    </Stack>
  )
}

function Requests({ query, label }: { query: NonNullable<Finding['requests']>; label: string }) {
  const { command: _command, ...search } = query
  return <Anchor component={Link} to="/requests" search={search as never}>{label}</Anchor>
}
