/** Files come in from an archive, as an export makes it. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { sendForm } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { ErrorBox } from '../../ui/states'
import { useTask } from '../../ui/task'
import { useWords } from '../../words/words'
import { NamespaceInput } from '../registry/namespace'
import { useForgetConfig } from './queries'

interface Named { name: string; group: string }
interface Imported { createConfigFiles?: Named[]; skipConfigFiles?: Named[]; overwriteConfigFiles?: Named[] }

export function ImportForm({ namespace: first = 'default', group: only, close }: { namespace?: string; group?: string; close: () => void }) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const [namespace, setNamespace] = useState(first)
  const [group, setGroup] = useState(only ?? '')
  const [file, setFile] = useState<File | null>(null)
  const [handling, setHandling] = useState<'skip' | 'overwrite'>('skip')
  const { run, isBusy, error } = useTask()
  const [done, setDone] = useState<Imported>()
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (file === null) return
    void run(async () => {
      const form = new FormData()
      form.set('config', file)
      setDone(await sendForm<Imported>('config/v1/configfiles/import', form, { namespace, group: group || undefined, conflict_handling: handling }))
      await forget()
    })
  }
  const counts: [string, Named[]][] = [[say.imported.created, done?.createConfigFiles ?? []], [say.imported.replaced, done?.overwriteConfigFiles ?? []], [say.imported.skipped, done?.skipConfigFiles ?? []]]
  return (
    <Dialog onClose={close} title={say.import}>
      {done ? (
        <Stack>
          {counts.filter(([, list]) => list.length > 0).map(([label, list]) => <Text key={label} size="sm"><strong>{label}: {list.length}</strong> <span className="mono">{list.slice(0, 20).map((one) => `${one.group}/${one.name}`).join(', ')}{list.length > 20 && ' …'}</span></Text>)}
          <Text size="sm" c="dimmed">{say.imported.help}</Text>
          <Group justify="flex-end"><Button onClick={close} data-autofocus>{words.close}</Button></Group>
        </Stack>
      ) : (
        <form onSubmit={submit}>
          <Stack>
            {error !== undefined && <ErrorBox error={error} />}
            <NamespaceInput value={namespace} set={setNamespace} isFixed={only !== undefined} />
            <TextInput label={say.importGroup} description={only === undefined ? say.importGroupHelp : undefined} disabled={only !== undefined} value={group} onChange={(event) => setGroup(event.currentTarget.value)} />
            <label className="filepick"><Text span size="sm" fw={500}>{say.archive}</Text><input type="file" accept=".zip,application/zip" required onChange={(event) => setFile(event.currentTarget.files?.[0] ?? null)} /></label>
            <fieldset className="bare"><legend><Text span size="sm" fw={500}>{say.existing}</Text></legend>
              <Stack gap={4}>{(['skip', 'overwrite'] as const).map((one) => <label key={one} className="choice"><input type="radio" name="handling" checked={handling === one} onChange={() => setHandling(one)} /> {say.handling[one]}</label>)}</Stack>
            </fieldset>
            <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={file === null || namespace === ''}>{say.import}</Button></Group>
          </Stack>
        </form>
      )}
    </Dialog>
  )
}
