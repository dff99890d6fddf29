/** A certificate is renewed: the new one is pasted, and what differs in names and dates stands there before anything is
 * written. The key is written only, and asked for only where the stored one does not fit; the gateway says which it is. */
import { Alert, Button, Group, Stack, Table, Text, Textarea } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { useForgetting } from '../../api/changes'
import { call, json } from '../../api/client'
import { announce } from '../../api/saved'
import type { CertificateRow } from '../../api/types'
import { Dialog } from '../../ui/dialog'
import { useRefusal } from '../../ui/permission'
import { ErrorBox, StateBadge } from '../../ui/states'
import { useTask } from '../../ui/task'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'

interface Verdict {
  revision: number
  before: CertificateRow
  after: CertificateRow
  stored_key_fits: boolean
  key_fits: boolean | null
}

export function Renewal({ row, close }: { row: CertificateRow; close: () => void }) {
  const words = useWords()
  const client = useQueryClient()
  const forget = useForgetting()
  const refused = useRefusal()
  const [cert, setCert] = useState('')
  const [key, setKey] = useState('')
  const [verdict, setVerdict] = useState<Verdict>()
  const { run, isBusy, error } = useTask()
  const path = encodeURIComponent(row.id)
  const write = (set: (text: string) => void) => (event: React.ChangeEvent<HTMLTextAreaElement>) => {
    set(event.currentTarget.value)
    // A verdict is about what was pasted when it was asked for.
    if (set === setCert) setVerdict(undefined)
  }
  const check = () => run(async () => setVerdict(await json<Verdict>(`/console/v1/certificates/${path}/check`, { method: 'POST', body: JSON.stringify({ cert, ...(key === '' ? {} : { key }) }) })))
  const save = (revision: number, needsKey: boolean) => run(async () => {
    const body = JSON.stringify({ cert, ...(needsKey || key !== '' ? { key } : {}) })
    await call(`/apisix/admin/ssls/${path}`, { method: 'PATCH', body, headers: { 'If-Match': `"${revision}"` } })
    await forget()
    await client.invalidateQueries({ queryKey: ['certificates'] })
    announce({ kind: 'ssls', id: row.id })
    close()
  })
  const needsKey = verdict !== undefined && !verdict.stored_key_fits
  return (
    <Dialog onClose={close} size="lg" title={words.renewTitle(row.id)}>
      <Stack>
        <Text size="sm">{words.renewHelp}</Text>
        {error !== undefined && <ErrorBox error={error} />}
        <Textarea data-autofocus className="editor" label={words.newCertificate} placeholder="-----BEGIN CERTIFICATE-----" spellCheck={false} autosize minRows={4} maxRows={8} value={cert} onChange={write(setCert)} />
        {verdict && <Differing verdict={verdict} />}
        {needsKey && <Textarea className="editor secret" label={words.newKey} description={words.newKeyHelp} placeholder="-----BEGIN PRIVATE KEY-----" spellCheck={false} autoComplete="off" autosize minRows={3} maxRows={6} value={key} onChange={write(setKey)} />}
        <Group justify="flex-end">
          <Button variant="default" onClick={close}>{words.cancel}</Button>
          {verdict === undefined
            ? <Button loading={isBusy} disabled={cert.trim() === '' || refused !== undefined} title={refused} onClick={() => void check()}>{words.check}</Button>
            : <Button loading={isBusy} disabled={refused !== undefined || (needsKey && key.trim() === '')} title={refused} onClick={() => void save(verdict.revision, needsKey)}>{words.save}</Button>}
        </Group>
      </Stack>
    </Dialog>
  )
}

/** The old and the new one beside each other. */
function Differing({ verdict: { before, after, stored_key_fits: fits } }: { verdict: Verdict }) {
  const words = useWords()
  const olds = before.names ?? []
  const news = after.names ?? []
  const gone = olds.filter((name) => !news.includes(name))
  const added = news.filter((name) => !olds.includes(name))
  const rows: [string, React.ReactNode, React.ReactNode][] = [
    [words.begins, <Time key="b" at={before.not_before} />, <Time key="a" at={after.not_before} />],
    [words.ends, <Time key="b" at={before.not_after} />, <Time key="a" at={after.not_after} />],
    [words.issuer, <span key="b" lang="en">{before.issuer}</span>, <span key="a" lang="en">{after.issuer}</span>],
  ]
  return (
    <section className="card" aria-label={words.difference}>
      <Stack gap="xs">
        <Group gap="xs">{fits ? <StateBadge state="good" label={words.storedKeyFits} /> : <StateBadge state="warn" label={words.storedKeyMisfit} />}</Group>
        <Table withRowBorders={false}>
          <Table.Tbody>
            {rows.map(([label, old, next]) => <Table.Tr key={label}><Table.Th fw={500} c="dimmed">{label}</Table.Th><Table.Td>{old}</Table.Td><Table.Td aria-hidden>→</Table.Td><Table.Td>{next}</Table.Td></Table.Tr>)}
          </Table.Tbody>
        </Table>
        {gone.length === 0 && added.length === 0 && <Text size="sm">{words.namesSame}</Text>}
        {added.length > 0 && <Text size="sm">{words.namesNew}: <span className="mono">{added.join(', ')}</span></Text>}
        {gone.length > 0 && <Text size="sm">{words.namesGone}: <span className="mono">{gone.join(', ')}</span></Text>}
        {after.faults.length > 0 && <Alert color="yellow" variant="light" role="alert"><Text size="sm" lang="en">{after.faults.join('; ')}</Text></Alert>}
      </Stack>
    </section>
  )
}
