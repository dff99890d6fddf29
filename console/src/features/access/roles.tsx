/** Roles: users and groups that policies name together. */
import { Button, Group, Stack, Table, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { Choose } from './choose'
import { Deletion } from './deletion'
import { Members } from './groups'
import { type Role, useForgetAccess, useRoles, useUserGroups, useUsers } from './queries'

export function Roles({ refused }: { refused: string | undefined }) {
  const words = useWords()
  const say = words.access
  const found = useRoles()
  const [open, setOpen] = useState<{ what: 'edit' | 'delete'; role: Role } | 'new'>()
  const close = () => setOpen(undefined)
  const { data } = found
  return (
    <>
      <Group mb="md" justify="flex-end"><Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => setOpen('new')}>{say.newRole}</Button></Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : data.list.length === 0 ? <Empty>{say.noRoles}</Empty> : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th>{say.tabs.users}</Table.Th><Table.Th>{say.tabs.groups}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {data.list.map((role) => (
                <Table.Tr key={role.id}>
                  <Table.Td data-label={words.name}><Text fw={600} size="sm">{role.name}</Text></Table.Td>
                  <Table.Td data-label={say.tabs.users}><Members names={(role.users ?? []).map((one) => one.name || one.id)} /></Table.Td>
                  <Table.Td data-label={say.tabs.groups}><Members names={(role.user_groups ?? []).map((one) => one.name || one.id)} /></Table.Td>
                  <Table.Td data-label={words.comment}>{role.comment}</Table.Td>
                  <Table.Td><Group gap={4} wrap="nowrap" justify="flex-end">
                    {(['edit', 'delete'] as const).map((what) => <Button key={what} size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what, role })} aria-label={`${say.acts[what]} ${role.name}`}>{say.acts[what]}</Button>)}
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
      )}
      {open === 'new' && <RoleForm close={close} />}
      {open && open !== 'new' && open.what === 'edit' && <RoleForm role={open.role} close={close} />}
      {open && open !== 'new' && open.what === 'delete' && <Deletion name={open.role.name} help={say.deleteRoleHelp} path="core/v1/roles/delete" id={open.role.id} close={close} />}
    </>
  )
}

function RoleForm({ role, close }: { role?: Role; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const users = useUsers()
  const groups = useUserGroups()
  const [name, setName] = useState(role?.name ?? '')
  const [comment, setComment] = useState(role?.comment ?? '')
  const [people, setPeople] = useState(new Set((role?.users ?? []).map((one) => one.id)))
  const [teams, setTeams] = useState(new Set((role?.user_groups ?? []).map((one) => one.id)))
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    const ids = (set: Set<string>) => [...set].map((id) => ({ id }))
    try {
      await writePolaris(role ? 'PUT' : 'POST', 'core/v1/roles', [{ ...(role ? { id: role.id } : {}), name, comment, users: ids(people), user_groups: ids(teams) }])
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} title={role ? `${words.edit}: ${role.name}` : say.newRole}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.name} required disabled={role !== undefined} data-autofocus={role === undefined || undefined} value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          {users.data && <Choose label={say.tabs.users} all={users.data.list.filter((user) => user.user_type !== 'main')} chosen={people} set={setPeople} />}
          {groups.data && <Choose label={say.tabs.groups} all={groups.data.list} chosen={teams} set={setTeams} />}
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" disabled={name === ''}>{role ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
