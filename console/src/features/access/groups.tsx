/** Groups of users: their members, and the token that machines of the group share. */
import { Badge, Button, Group, Stack, Table, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { secondsOf } from '../config/queries'
import { Choose } from './choose'
import { Deletion } from './deletion'
import { useForgetAccess, type UserGroup, useUserGroups, useUsers } from './queries'
import { FreshToken, readToken, TokenBadge, TokenDialog } from './token'

export function Groups({ refused }: { refused: string | undefined }) {
  const words = useWords()
  const say = words.access
  const found = useUserGroups()
  const [open, setOpen] = useState<{ what: 'edit' | 'token' | 'delete'; group: UserGroup } | 'new'>()
  const close = () => setOpen(undefined)
  const { data } = found
  return (
    <>
      <Group mb="md" justify="flex-end"><Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => setOpen('new')}>{say.newGroup}</Button></Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? <Empty>{say.noGroups}</Empty> : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th>{say.members}</Table.Th><Table.Th>{say.token}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th>{words.changed}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.list.map((group) => (
                <Table.Tr key={group.id}>
                  <Table.Td data-label={words.name}><Text fw={600} size="sm">{group.name}</Text></Table.Td>
                  <Table.Td data-label={say.members}><Members names={(group.relation?.users ?? []).map((user) => user.name)} /></Table.Td>
                  <Table.Td data-label={say.token}><TokenBadge isEnabled={group.token_enable} /></Table.Td>
                  <Table.Td data-label={words.comment}>{group.comment}</Table.Td>
                  <Table.Td data-label={words.changed} className="nowrap"><Text size="sm" c="dimmed"><Time at={secondsOf(group.mtime)} /></Text></Table.Td>
                  <Table.Td><Group gap={4} wrap="nowrap" justify="flex-end">
                    {(['token', 'edit', 'delete'] as const).map((what) => <Button key={what} size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what, group })} aria-label={`${say.acts[what]} ${group.name}`}>{say.acts[what]}</Button>)}
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
      )}
      {open === 'new' && <GroupForm close={close} />}
      {open && open !== 'new' && open.what === 'edit' && <GroupForm group={open.group} close={close} />}
      {open && open !== 'new' && open.what === 'token' && <TokenDialog holder={{ kind: 'usergroup', id: open.group.id, name: open.group.name, isEnabled: open.group.token_enable }} close={close} />}
      {open && open !== 'new' && open.what === 'delete' && <Deletion name={open.group.name} help={say.deleteGroupHelp} path="core/v1/usergroups/delete" id={open.group.id} close={close} />}
    </>
  )
}

/** A few names, and how many more there are. */
export function Members({ names }: { names: string[] }) {
  const words = useWords()
  if (names.length === 0) return <Text span size="sm" c="dimmed">{words.none}</Text>
  return <Group gap={4}>{names.slice(0, 6).map((name) => <Badge key={name} variant="default" tt="none">{name}</Badge>)}{names.length > 6 && <Text span size="sm" c="dimmed" title={names.join(', ')}>+{names.length - 6}</Text>}</Group>
}

function GroupForm({ group, close }: { group?: UserGroup; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const users = useUsers()
  const before = new Set((group?.relation?.users ?? []).map((user) => user.id))
  const [name, setName] = useState(group?.name ?? '')
  const [comment, setComment] = useState(group?.comment ?? '')
  const [chosen, choose] = useState<Set<string>>(new Set(before))
  const [token, setToken] = useState<string>()
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    const members = (ids: string[]) => ({ users: ids.map((id) => ({ id })) })
    try {
      if (group === undefined) {
        const made = await writePolaris<{ userGroup: { id: string } }>('POST', 'core/v1/usergroup', { name, comment, relation: members([...chosen]) })
        setToken(await readToken({ kind: 'usergroup', id: made.userGroup.id }))
      } else {
        await writePolaris('PUT', 'core/v1/usergroups', [{ id: group.id, comment, add_relations: members([...chosen].filter((id) => !before.has(id))), remove_relations: members([...before].filter((id) => !chosen.has(id))) }])
      }
      await forget()
      if (group !== undefined) close()
    } catch (refused) {
      setError(refused)
    }
  }
  if (token !== undefined) return <Dialog onClose={close} title={say.groupMade(name)}><Stack><FreshToken name={name} token={token} /><Group justify="flex-end"><Button onClick={close} data-autofocus>{words.close}</Button></Group></Stack></Dialog>
  return (
    <Dialog onClose={close} title={group ? `${words.edit}: ${group.name}` : say.newGroup}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.name} required disabled={group !== undefined} data-autofocus={group === undefined || undefined} value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          {users.data && <Choose label={say.members} all={users.data.list.filter((user) => user.user_type !== 'main')} chosen={chosen} set={choose} />}
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" disabled={name === ''}>{group ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
