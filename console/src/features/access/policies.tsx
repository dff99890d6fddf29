/** Policies as sentences: who may do what with which objects. Policies that belong to one user or group come last. */
import { Badge, Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import { Empty, ErrorBox, Loading, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { secondsOf } from '../config/queries'
import { Deletion } from './deletion'
import { PolicyForm } from './policy'
import { type Policy, usePolicies } from './queries'
import { sentenceOf } from './says'

/** Names that the registry gives to the policies of users and groups: their language is that of the protocol's server. */
const ownName = (policy: Policy) => {
  const { users = [], groups = [] } = policy.principals ?? {}
  return [...users, ...groups].map((one) => one.name || one.id).join(', ') || policy.name
}

export function Policies({ refused }: { refused: string | undefined }) {
  const words = useWords()
  const say = words.access
  const found = usePolicies()
  const [q, setQ] = useState('')
  const [open, setOpen] = useState<{ what: 'edit' | 'delete'; policy: Policy } | 'new'>()
  const close = () => setOpen(undefined)
  const { data } = found
  const fits = (policy: Policy) => `${policy.name} ${policy.comment} ${sentenceOf(policy, words)}`.toLowerCase().includes(q.toLowerCase())
  const list = (data?.list ?? []).filter(fits)
  const made = list.filter((policy) => !policy.default_strategy)
  const own = list.filter((policy) => policy.default_strategy)
  const card = (policy: Policy) => (
    <section key={policy.id} className="card policy" aria-label={policy.default_strategy ? say.ownOf(ownName(policy)) : policy.name}>
      <Group justify="space-between" wrap="nowrap" align="flex-start">
        <div className="grow">
          <Text className="says">{sentenceOf(policy, words)}</Text>
          <Group gap="xs" mt={6}>
            <StateBadge state={policy.action === 'DENY' ? 'bad' : 'good'} label={policy.action === 'DENY' ? say.forbids : say.allows} />
            <Text size="sm" fw={500}>{policy.default_strategy ? say.ownOf(ownName(policy)) : policy.name}</Text>
            {policy.comment && !policy.default_strategy && <Text size="sm" c="dimmed">{policy.comment}</Text>}
            {policy.default_strategy && <Badge variant="default" tt="none">{say.own}</Badge>}
            <Text size="xs" c="dimmed" component="div"><Time at={secondsOf(policy.mtime)} /></Text>
          </Group>
        </div>
        <Group gap={4} wrap="nowrap">
          <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what: 'edit', policy })} aria-label={`${say.acts.edit} ${policy.name}`}>{say.acts.edit}</Button>
          {!policy.default_strategy && <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what: 'delete', policy })} aria-label={`${say.acts.delete} ${policy.name}`}>{say.acts.delete}</Button>}
        </Group>
      </Group>
    </section>
  )
  return (
    <>
      <Group mb="md" justify="space-between">
        <TextInput data-filter className="filterbox" aria-label={say.filterPolicies} placeholder={say.filterPolicies} value={q} onChange={(event) => setQ(event.currentTarget.value)} />
        <Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => setOpen('new')}>{say.newPolicy}</Button>
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : (
        <Stack gap="sm">
          {made.length === 0 && <Empty>{q === '' ? say.noPolicies : words.noMatch(q)}</Empty>}
          {made.map(card)}
          {own.length > 0 && <details open={q !== ''}><summary><Text span size="sm" fw={500}>{say.ownPolicies(own.length)}</Text></summary><Stack gap="sm" mt="sm">{own.map(card)}</Stack></details>}
          {data.isCut && <Text size="sm" c="dimmed">{say.cut(data.list.length, data.total)}</Text>}
        </Stack>
      )}
      {open === 'new' && <PolicyForm close={close} />}
      {open && open !== 'new' && open.what === 'edit' && <PolicyForm policy={open.policy} close={close} />}
      {open && open !== 'new' && open.what === 'delete' && <Deletion name={open.policy.name} help={say.deletePolicyHelp} path="core/v1/auth/strategies/delete" id={open.policy.id} close={close} />}
    </>
  )
}
