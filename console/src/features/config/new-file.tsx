/** A new configuration file. */
import { Button, Checkbox, Group, NativeSelect, Stack, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useWords } from '../../words/words'
import { useForgetConfig } from './queries'
import { FORMATS, formatOf } from './tree'

export function NewFile({ namespace, group, close, done }: { namespace: string; group: string; close: () => void; done: (name: string) => void }) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const [name, setName] = useState('')
  const [chosen, setFormat] = useState<string>()
  const [comment, setComment] = useState('')
  const [encrypted, setEncrypted] = useState(false)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const format = chosen ?? formatOf(name)
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      await writePolaris('POST', 'config/v1/configfiles', { namespace, group, name, format, comment, content: '', encrypted, ...(encrypted ? { encrypt_algo: 'AES' } : {}) })
      await forget()
      done(name)
    } catch (refused) {
      setError(refused)
      setBusy(false)
    }
  }
  return (
    <Dialog onClose={close} title={say.newFile}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          <TextInput label={words.name} description={say.nameHelp} required data-autofocus placeholder="db/pool.yaml" value={name} onChange={(event) => setName(event.currentTarget.value)} />
          <NativeSelect label={say.format} value={format} data={[...FORMATS]} onChange={(event) => setFormat(event.currentTarget.value)} />
          <TextInput label={words.comment} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          <Checkbox label={say.encrypt} description={say.encryptHelp} checked={encrypted} onChange={(event) => setEncrypted(event.currentTarget.checked)} />
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={name === ''}>{words.naming.create}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
