/** A group of configuration files is made, described or deleted. */
import { Button, Group, SimpleGrid, Stack, TextInput } from '@mantine/core'
import { useNavigate } from '@tanstack/react-router'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { segmentOf } from '../../lib/segment'
import { Deletion } from '../../ui/deletion'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { NamespaceInput } from '../registry/namespace'
import { type ConfigGroup, useForgetConfig } from './queries'

export function GroupForm({ group, close }: { group?: ConfigGroup; close: () => void }) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const navigate = useNavigate()
  const [namespace, setNamespace] = useState(group?.namespace ?? 'default')
  const [name, setName] = useState(group?.name ?? '')
  const [comment, setComment] = useState(group?.comment ?? '')
  const [business, setBusiness] = useState(group?.business ?? '')
  const [department, setDepartment] = useState(group?.department ?? '')
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await writePolaris(group ? 'PUT' : 'POST', 'config/v1/configfilegroups', { namespace, name, comment, business, department, metadata: group?.metadata ?? {} })
      await forget()
      close()
      if (group === undefined) await navigate({ to: `/config/${segmentOf(namespace)}/${segmentOf(name)}` })
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} title={group ? `${words.edit}: ${group.name}` : say.newGroup}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <NamespaceInput value={namespace} set={setNamespace} isFixed={group !== undefined} />
            <TextInput label={words.name} required disabled={group !== undefined} value={name} data-autofocus={group === undefined || undefined} placeholder="orders" onChange={(event) => setName(event.currentTarget.value)} />
          </SimpleGrid>
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          <SimpleGrid cols={{ base: 1, xs: 2 }}>
            <TextInput label={words.naming.business} value={business} onChange={(event) => setBusiness(event.currentTarget.value)} />
            <TextInput label={words.naming.department} value={department} onChange={(event) => setDepartment(event.currentTarget.value)} />
          </SimpleGrid>
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={name === '' || namespace === ''}>{group ? words.save : words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}

/** A group goes only without files; the registry says so. */
export function GroupDeletion({ group, close }: { group: ConfigGroup; close: () => void }) {
  const words = useWords()
  const forget = useForgetConfig()
  const remove = async () => {
    await writePolaris('DELETE', 'config/v1/configfilegroups', undefined, { namespace: group.namespace, group: group.name })
    await forget()
    close()
  }
  return <Deletion what={group.name} help={words.files.deleteGroupHelp(Number(group.fileCount))} remove={remove} close={close} />
}
