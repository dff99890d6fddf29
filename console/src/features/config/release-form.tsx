/** A release: what becomes of a file's content for which clients. A content that does not parse is refused, and the line is shown. */
import { Button, Checkbox, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core'
import { type FormEvent, useState } from 'react'
import { ApiError } from '../../api/client'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { Difference } from '../../ui/difference'
import { ErrorBox, Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { type ConfigFile, type FileName, type Release, useForgetConfig, useRelease } from './queries'
import { lineOf } from './tree'

/** What the refusal of a content that is not of its format tells to do, and no other does. */
const FORCE_HINT = 'force=true'
const MATCHES = ['EXACT', 'NOT_EQUALS', 'IN', 'NOT_IN', 'REGEX', 'RANGE'] as const

interface Label { key: string; type: (typeof MATCHES)[number]; value: string }

interface Props { file: FileName; stored: ConfigFile; all: Release | undefined; close: () => void; refusedAt: (text: string) => void }

export function ReleaseForm({ file, stored, all, close, refusedAt }: Props) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const before = useRelease(file, all?.name)
  const [name, setName] = useState('')
  const [comment, setComment] = useState('')
  const [isGray, setGray] = useState(false)
  const [labels, setLabels] = useState<Label[]>([{ key: 'CLIENT_IP', type: 'IN', value: '' }])
  const [isForced, force] = useState(false)
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const text = error instanceof ApiError ? error.message : ''
  const isFormat = text.includes(FORCE_HINT)
  const isComplete = !isGray || labels.every((label) => label.key !== '' && label.value !== '')
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    setError(undefined)
    try {
      const gray = isGray ? { release_type: 'gray', beta_labels: labels.map(({ key, type, value }) => ({ key, value: { type, value } })) } : {}
      await writePolaris('POST', 'config/v1/configfiles/release', { namespace: file.namespace, group: file.group, file_name: file.name, name, release_description: comment, ...gray }, { force: isForced ? 'true' : undefined })
      await forget()
      close()
    } catch (refused) {
      setError(refused)
    } finally {
      setBusy(false)
    }
  }
  const change = (at: number, part: Partial<Label>) => setLabels(labels.map((label, i) => (i === at ? { ...label, ...part } : label)))
  return (
    <Dialog onClose={close} size="xl" title={say.releaseTitle(file.name)}>
      <form onSubmit={submit}>
        <Stack>
          {error !== undefined && <ErrorBox error={error} />}
          {isFormat && (
            <Group gap="sm">
              {lineOf(text) !== undefined && <Button size="xs" variant="default" onClick={() => refusedAt(text)}>{say.goToLine(lineOf(text) ?? 0)}</Button>}
              <Checkbox label={say.releaseAnyway} checked={isForced} onChange={(event) => force(event.currentTarget.checked)} />
            </Group>
          )}
          <Group grow align="flex-start">
            <TextInput label={say.releaseName} description={say.releaseNameHelp} placeholder={say.releaseNameExample} value={name} onChange={(event) => setName(event.currentTarget.value)} data-autofocus />
            <TextInput label={say.why} description={say.whyHelp} value={comment} onChange={(event) => setComment(event.currentTarget.value)} />
          </Group>
          <fieldset className="bare">
            <legend><Text span size="sm" fw={500}>{say.forWhom}</Text></legend>
            <Stack gap={4}>
              <label className="choice"><input type="radio" name="reach" checked={!isGray} onChange={() => setGray(false)} /> {say.forAll}</label>
              <label className="choice"><input type="radio" name="reach" checked={isGray} onChange={() => setGray(true)} /> {say.forSome}</label>
            </Stack>
          </fieldset>
          {isGray && (
            <Stack gap="xs">
              {labels.map((label, at) => (
                <Group key={at} gap="xs" align="flex-end" wrap="wrap">
                  <TextInput size="xs" label={say.label} value={label.key} list="label-names" onChange={(event) => change(at, { key: event.currentTarget.value })} />
                  <NativeSelect size="xs" aria-label={say.match} value={label.type} data={MATCHES.map((one) => ({ value: one, label: say.matches[one] }))} onChange={(event) => change(at, { type: event.currentTarget.value as Label['type'] })} />
                  <TextInput size="xs" className="grow" label={say.value} placeholder={label.type === 'IN' || label.type === 'NOT_IN' ? '10.0.0.1,10.0.0.2' : 'canary'} value={label.value} onChange={(event) => change(at, { value: event.currentTarget.value })} />
                  {labels.length > 1 && <Button size="xs" variant="default" aria-label={`${words.remove} ${label.key}`} onClick={() => setLabels(labels.filter((_, i) => i !== at))}>×</Button>}
                </Group>
              ))}
              <datalist id="label-names"><option value="CLIENT_IP" /><option value="CLIENT_ID" /></datalist>
              <Group><Button size="xs" variant="default" onClick={() => setLabels([...labels, { key: '', type: 'EXACT', value: '' }])}>{say.addLabel}</Button><Text size="xs" c="dimmed">{say.labelsHelp}</Text></Group>
            </Stack>
          )}
          <div>
            <Text size="sm" fw={500} mb={4}>{all ? say.changesSince(all.name) : say.firstRelease}</Text>
            {all && before.data === undefined ? (before.isError ? <ErrorBox error={before.error} /> : <Loading rows={3} />) : <Difference before={before.data?.content ?? ''} after={stored.content} />}
          </div>
          <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button type="submit" loading={isBusy} disabled={!isComplete || (isFormat && !isForced)}>{isGray ? say.releaseToSome : say.releaseToAll}</Button></Group>
        </Stack>
      </form>
    </Dialog>
  )
}
