/** Users: people and machines with a name, a password and a token. */
import { Button, Group, PasswordInput, SimpleGrid, Stack, Table, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { newSecret } from '../../lib/secret'
import { Dialog } from '../../ui/dialog'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { secondsOf } from '../config/queries'
import { Choose } from './choose'
import { Deletion } from './deletion'
import { useForgetAccess, useUserGroups, useUsers, type User } from './queries'
import { FreshToken, readToken, TokenBadge, TokenDialog } from './token'

export function Users({ refused }: { refused: string | undefined }) {
  const words = useWords()
  const say = words.access
  const found = useUsers()
  const groups = useUserGroups()
  const [q, setQ] = useState('')
  const [open, setOpen] = useState<{ what: 'edit' | 'token' | 'password' | 'delete'; user: User } | 'new'>()
  const close = () => setOpen(undefined)
  const { data } = found
  const list = (data?.list ?? []).filter((user) => `${user.name} ${user.comment} ${user.email}`.toLowerCase().includes(q.toLowerCase()))
  const groupsOf = (id: string) => (groups.data?.list ?? []).filter((group) => group.relation?.users?.some((user) => user.id === id))
  return (
    <>
      <Group mb="md" justify="space-between">
        <TextInput data-filter className="filterbox" aria-label={say.filterUsers} placeholder={say.filterUsers} value={q} onChange={(event) => setQ(event.currentTarget.value)} />
        <Button size="sm" data-new disabled={refused !== undefined} title={refused} onClick={() => setOpen('new')}>{say.newUser}</Button>
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : list.length === 0 ? <Empty>{q === '' ? say.noUsers : words.noMatch(q)}</Empty> : (
        <Scroll>
          <Table highlightOnHover className="cards">
            <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th>{say.tabs.groups}</Table.Th><Table.Th>{say.token}</Table.Th><Table.Th>{words.comment}</Table.Th><Table.Th>{words.changed}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
            <Table.Tbody>
              {list.map((user) => (
                <Table.Tr key={user.id}>
                  <Table.Td data-label={words.name}><div><Text fw={600} size="sm">{user.name}</Text>{user.user_type === 'main' && <Text size="xs" c="dimmed">{say.builtIn}</Text>}{user.email && <Text size="xs" c="dimmed">{user.email}</Text>}</div></Table.Td>
                  <Table.Td data-label={say.tabs.groups}>{groupsOf(user.id).map((group) => group.name).join(', ') || '–'}</Table.Td>
                  <Table.Td data-label={say.token}><TokenBadge isEnabled={user.token_enable} /></Table.Td>
                  <Table.Td data-label={words.comment}>{user.comment}</Table.Td>
                  <Table.Td data-label={words.changed} className="nowrap"><Text size="sm" c="dimmed"><Time at={secondsOf(user.mtime)} /></Text></Table.Td>
                  <Table.Td className={user.user_type === 'main' ? 'blank' : undefined}><Group gap={4} wrap="nowrap" justify="flex-end">
                    {user.user_type !== 'main' && (['token', 'password', 'edit', 'delete'] as const).map((what) => <Button key={what} size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setOpen({ what, user })} aria-label={`${say.acts[what]} ${user.name}`}>{say.acts[what]}</Button>)}
                  </Group></Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
          {data.isCut && <Text size="sm" c="dimmed">{say.cut(data.list.length, data.total)}</Text>}
        </Scroll>
      )}
      {open === 'new' && <NewUser close={close} />}
      {open && open !== 'new' && open.what === 'edit' && <EditUser user={open.user} close={close} />}
      {open && open !== 'new' && open.what === 'token' && <TokenDialog holder={{ kind: 'user', id: open.user.id, name: open.user.name, isEnabled: open.user.token_enable }} close={close} />}
      {open && open !== 'new' && open.what === 'password' && <Password user={open.user} close={close} />}
      {open && open !== 'new' && open.what === 'delete' && <Deletion name={open.user.name} help={say.deleteUserHelp} path="core/v1/users/delete" id={open.user.id} close={close} />}
    </>
  )
}

/** A password that was made here is shown in its field until the dialog closes, and nowhere after. */
function PasswordField({ value, set }: { value: string; set: (value: string) => void }) {
  const say = useWords().access
  const [isShown, show] = useState(false)
  return (
    <Group gap="xs" align="flex-end">
      <PasswordInput className="grow" label={say.password} required autoComplete="new-password" value={value} visible={isShown} onVisibilityChange={show} visibilityToggleButtonProps={{ 'aria-label': say.showPassword }} onChange={(event) => set(event.currentTarget.value)} />
      <Button variant="default" onClick={() => { set(newSecret().slice(0, 17)); show(true) }}>{say.makePassword}</Button>
    </Group>
  )
}

function NewUser({ close }: { close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const groups = useUserGroups()
  const [name, setName] = useState('')
  const [password, setPassword] = useState('')
  const [comment, setComment] = useState('')
  const [email, setEmail] = useState('')
  const [chosen, choose] = useState(new Set<string>())
  const [token, setToken] = useState<string>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      const made = await writePolaris<{ responses: { user: { id: string } }[] }>('POST', 'core/v1/users', [{ name, password, comment, email }])
      const id = made.responses[0]?.user.id ?? ''
      if (chosen.size > 0) await writePolaris('PUT', 'core/v1/usergroups', [...chosen].map((group) => ({ id: group, add_relations: { users: [{ id }] } })))
      setToken(await readToken({ kind: 'user', id }))
      await forget()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  if (token !== undefined) return <Dialog onClose={close} title={say.userMade(name)}><Stack><FreshToken name={name} token={token} /><Text size="sm">{say.userNext}</Text><Group justify="flex-end"><Button onClick={close} data-autofocus>{words.close}</Button></Group></Stack></Dialog>
  return (
    <Dialog onClose={close} title={say.newUser}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.name} required data-autofocus autoComplete="off" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <PasswordField value={password} set={setPassword} />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput label={say.email} value={email} onChange={(event) => setEmail(event.currentTarget.value)} />
            <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          </SimpleGrid>
          {groups.data && groups.data.list.length > 0 && <Choose label={say.tabs.groups} all={groups.data.list} chosen={chosen} set={choose} />}
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={name === '' || password === ''}>{words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}

function EditUser({ user, close }: { user: User; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const groups = useUserGroups()
  const before = new Set((groups.data?.list ?? []).filter((group) => group.relation?.users?.some((it) => it.id === user.id)).map((group) => group.id))
  const [comment, setComment] = useState(user.comment)
  const [email, setEmail] = useState(user.email)
  const [mobile, setMobile] = useState(user.mobile)
  const [chosen, choose] = useState<Set<string>>(new Set(before))
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setError(undefined)
    try {
      if (comment !== user.comment || email !== user.email || mobile !== user.mobile) await writePolaris('PUT', 'core/v1/user', { id: user.id, comment, email, mobile })
      const relation = { users: [{ id: user.id }] }
      const changes = [...[...chosen].filter((id) => !before.has(id)).map((id) => ({ id, add_relations: relation })), ...[...before].filter((id) => !chosen.has(id)).map((id) => ({ id, remove_relations: relation }))]
      if (changes.length > 0) await writePolaris('PUT', 'core/v1/usergroups', changes)
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} title={`${words.edit}: ${user.name}`}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput label={say.email} value={email} onChange={(event) => setEmail(event.currentTarget.value)} />
            <TextInput label={say.mobile} value={mobile} onChange={(event) => setMobile(event.currentTarget.value)} />
          </SimpleGrid>
          {groups.data && <Choose label={say.tabs.groups} all={groups.data.list} chosen={chosen} set={choose} />}
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit">{words.save}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}

function Password({ user, close }: { user: User; close: () => void }) {
  const words = useWords()
  const say = words.access
  const forget = useForgetAccess()
  const [password, setPassword] = useState('')
  const [error, setError] = useState<unknown>()
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    try {
      await writePolaris('PUT', 'core/v1/user/password', { id: user.id, new_password: password })
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    }
  }
  return (
    <Dialog onClose={close} title={say.passwordTitle(user.name)}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <PasswordField value={password} set={setPassword} />
          <Text size="sm" c="dimmed">{say.passwordHelp}</Text>
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" disabled={password === ''}>{words.save}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
