/** A policy is written: who, what, and on which objects. What it says stands above as a sentence, while it is written. */
import { Button, Group, NativeSelect, SimpleGrid, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { Choose } from './choose'
import { creation, type Draft, draftOf, functionsOf, type Line, modification, type ObjectKind } from './draft'
import { GATEWAY_KEY, type Named, type Policy, RESOURCE_LISTS, useForgetAccess, useResourceNames, useRoles, useUserGroups, useUsers } from './queries'
import { type Reach, sentenceOf } from './says'

const REACHES: Reach[] = ['read', 'change', 'some']
const KINDS: ObjectKind[] = ['namespaces', 'services', 'config_groups', 'gateway', ...RESOURCE_LISTS.slice(3)]

export function PolicyForm({ policy, close }: { policy?: Policy; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const users = (useUsers().data?.list ?? []).filter((user) => user.user_type !== 'main')
  const groups = useUserGroups().data?.list ?? []
  const roles = useRoles().data?.list ?? []
  const names = useResourceNames().data ?? {}
  const [draft, setDraft] = useState<Draft>(() => draftOf(policy))
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const set = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }))
  const line = (at: number, part: Partial<Line>) => set({ lines: draft.lines.map((one, i) => (i === at ? { ...one, ...part } : one)) })
  const isOwn = policy?.default_strategy === true
  const hasPeople = draft.users.size + draft.groups.size + draft.roles.size > 0
  const isComplete = draft.name !== '' && hasPeople && draft.lines.some((one) => one.text.trim() !== '') && functionsOf(draft).length > 0
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      if (policy === undefined) await writePolaris('POST', 'core/v1/auth/strategy', creation(draft))
      else await writePolaris('PUT', 'core/v1/auth/strategies', [modification(draft, policy)])
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} size="xl" title={policy ? `${words.edit}: ${policy.name}` : say.newPolicy}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <section className="card sentence" aria-label={words.ruleSays} aria-live="polite"><p>{sentenceOf(preview(draft, { users, groups, roles }), words)}</p></section>
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput label={words.name} required disabled={isOwn} data-autofocus={policy === undefined || undefined} value={draft.name} onChange={(event) => set({ name: event.currentTarget.value })} />
            <TextInput label={words.comment} value={draft.comment} onChange={(event) => set({ comment: event.currentTarget.value })} />
          </SimpleGrid>
          {!isOwn && (
            <SimpleGrid cols={{ base: 1, sm: 3 }}>
              <Choose label={say.tabs.users} all={users} chosen={draft.users} set={(chosen) => set({ users: chosen })} />
              <Choose label={say.tabs.groups} all={groups} chosen={draft.groups} set={(chosen) => set({ groups: chosen })} />
              <Choose label={say.tabs.roles} all={roles} chosen={draft.roles} set={(chosen) => set({ roles: chosen })} />
            </SimpleGrid>
          )}
          <Group gap="sm" align="flex-end">
            <NativeSelect label={say.effect} value={draft.action} data={[{ value: 'ALLOW', label: say.allow }, { value: 'DENY', label: say.deny }]} onChange={(event) => set({ action: event.currentTarget.value as Draft['action'] })} />
            <NativeSelect className="grow" label={say.what} value={draft.reach} data={REACHES.map((one) => ({ value: one, label: say.reaches[one] }))} onChange={(event) => set({ reach: event.currentTarget.value as Reach })} />
          </Group>
          {draft.reach === 'some' && <TextInput label={say.calls} description={say.callsHelp} placeholder="PublishConfigFile, RollbackConfigFileReleases" value={draft.functions} onChange={(event) => set({ functions: event.currentTarget.value })} />}
          <fieldset className="part">
            <legend><Text span size="sm" fw={500}>{say.objects}</Text></legend>
            <Stack gap="xs">
              {draft.lines.map((one, at) => (
                <Group key={at} gap="xs" wrap="nowrap">
                  <NativeSelect aria-label={say.kindOfObject} value={one.kind} data={KINDS.map((kind) => ({ value: kind, label: say.kinds[kind] }))} onChange={(event) => line(at, { kind: event.currentTarget.value as ObjectKind })} />
                  <TextInput className="grow" aria-label={say.kinds[one.kind]} placeholder={say.examples[one.kind]} value={one.text} list={`names-${one.kind}`} onChange={(event) => line(at, { text: event.currentTarget.value })} />
                  {draft.lines.length > 1 && <Button variant="default" aria-label={`${words.remove} ${one.text}`} onClick={() => set({ lines: draft.lines.filter((_, i) => i !== at) })}>×</Button>}
                </Group>
              ))}
              {RESOURCE_LISTS.map((kind) => <datalist key={kind} id={`names-${kind}`}>{['*', ...(names[kind] ?? [])].map((name) => <option key={name} value={name} />)}</datalist>)}
              <datalist id="names-gateway">{['*', 'routes/*', 'upstreams/*', 'services/*', 'consumers/*'].map((name) => <option key={name} value={name} />)}</datalist>
              <Group><Button size="xs" variant="default" onClick={() => set({ lines: [...draft.lines, { kind: 'services', text: '' }] })}>{say.addObject}</Button><Text size="xs" c="dimmed">{say.objectsHelp}</Text></Group>
            </Stack>
          </fieldset>
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={!isComplete}>{policy ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}

/** The draft as a policy, for its sentence. */
function preview(draft: Draft, { users, groups, roles }: Record<'users' | 'groups' | 'roles', readonly Named[]>): Policy {
  const named = (all: readonly Named[], chosen: Set<string>) => all.filter((one) => chosen.has(one.id))
  const resources: NonNullable<Policy['resources']> = {}
  for (const { kind, text } of draft.lines) if (kind !== 'gateway' && text.trim() !== '') (resources[kind] ??= []).push({ id: text.trim() })
  const gateway = draft.lines.filter((line) => line.kind === 'gateway').map((line) => line.text.trim()).filter((text) => text !== '')
  return {
    id: '', name: draft.name, comment: '', default_strategy: false, mtime: '', action: draft.action, functions: functionsOf(draft), resources,
    principals: { users: named(users, draft.users), groups: named(groups, draft.groups), roles: named(roles, draft.roles) },
    metadata: { [GATEWAY_KEY]: gateway.join(',') },
  }
}
