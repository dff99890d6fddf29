/** Releases of a file, which of them are in force, and what has been done with them. */
import { Button, Group, Stack, Table, Text } from '@mantine/core'
import { useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Dialog } from '../../ui/dialog'
import { Difference } from '../../ui/difference'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, StateBadge } from '../../ui/states'
import { useTask } from '../../ui/task'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { type ClientLabel, type ConfigFile, type FileName, type HistoryRow, inForce, type Release, secondsOf, useForgetConfig, useHistory, useRelease } from './queries'

const SIGNS: Record<string, string> = { EXACT: '=', REGEX: '~', NOT_EQUALS: '≠', IN: '∈', NOT_IN: '∉', RANGE: 'in' }
const labelText = (label: ClientLabel) => `${label.key} ${SIGNS[label.value?.type] ?? '='} ${label.value?.value ?? ''}`

type Deed = 'rollback' | 'delete' | 'stop'

export function Releases({ file, stored, releases }: { file: FileName; stored: ConfigFile; releases: Release[] }) {
  const words = useWords()
  const say = words.files
  const refused = useRefusal('registry')
  const [asked, ask] = useState<{ deed: Deed; release: Release }>()
  const { all } = inForce(releases)
  if (releases.length === 0) return <Empty>{say.noReleases}</Empty>
  return (
    <Stack>
      <Scroll>
        <Table className="cards">
          <Table.Thead><Table.Tr><Table.Th>{say.releaseName}</Table.Th><Table.Th className="numbers">{say.version}</Table.Th><Table.Th>{words.state}</Table.Th><Table.Th>{say.why}</Table.Th><Table.Th>{words.time}</Table.Th><Table.Th><span className="unseen">{words.edit}</span></Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {releases.map((release) => (
              <Table.Tr key={release.id}>
                <Table.Td data-label={say.releaseName} className="mono">{release.name}</Table.Td>
                <Table.Td data-label={say.version} className="numbers">{release.version}</Table.Td>
                <Table.Td data-label={words.state}>{release.active ? (release.releaseType === 'gray' ? <><StateBadge state="warn" label={say.gray} /> <Text span size="xs" className="mono">{release.betaLabels.map(labelText).join(', ')}</Text></> : <StateBadge state="good" label={say.active} />) : <Text span size="sm" c="dimmed">{say.inactive}</Text>}</Table.Td>
                <Table.Td data-label={say.why}>{release.releaseDescription}</Table.Td>
                <Table.Td data-label={words.time} className="nowrap"><Text size="sm" c="dimmed" component="div"><Time at={secondsOf(release.modifyTime)} />{release.modifyBy && ` · ${release.modifyBy}`}</Text></Table.Td>
                <Table.Td><Group gap={4} wrap="nowrap" justify="flex-end">
                  {release.active && release.releaseType === 'gray' && <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => ask({ deed: 'stop', release })}>{say.stopGray}</Button>}
                  {!release.active && <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => ask({ deed: 'rollback', release })} aria-label={`${say.rollBack} ${release.name}`}>{say.rollBack}</Button>}
                  {!release.active && <Button size="compact-xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => ask({ deed: 'delete', release })} aria-label={`${words.remove} ${release.name}`}>{words.remove}</Button>}
                </Group></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Scroll>
      <History file={file} />
      {asked && <Confirm file={file} stored={stored} all={all} deed={asked.deed} release={asked.release} close={() => ask(undefined)} />}
    </Stack>
  )
}

interface ConfirmProps { file: FileName; stored: ConfigFile; all: Release | undefined; deed: Deed; release: Release; close: () => void }

/** Says what clients get then, before anything is done. */
function Confirm({ file, all, deed, release, close }: ConfirmProps) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const { run, isBusy, error } = useTask()
  const before = useRelease(file, deed === 'rollback' ? all?.name : deed === 'stop' ? release.name : undefined)
  const after = useRelease(file, deed === 'rollback' ? release.name : deed === 'stop' ? all?.name : undefined)
  const path = { rollback: 'rollback', delete: 'delete', stop: 'stopbeta' }[deed]
  const title = { rollback: say.rollBackTitle(release.name), delete: words.deleteTitle(release.name), stop: say.stopGrayTitle(release.name) }[deed]
  const apply = () => run(async () => {
    const { namespace, group, name } = file
    await writePolaris(deed === 'rollback' ? 'PUT' : 'POST', `config/v1/configfiles/releases/${path}`, [{ namespace, group, file_name: name, name: release.name }])
    await forget()
    close()
  })
  return (
    <Dialog onClose={close} size={deed === 'delete' ? 'md' : 'xl'} title={title}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        <Text size="sm">{{ rollback: say.rollBackHelp, delete: say.deleteReleaseHelp, stop: say.stopGrayHelp }[deed]}</Text>
        {deed !== 'delete' && ((all !== undefined && (before.data === undefined || after.data === undefined)) ? <Loading rows={3} /> : <Difference before={before.data?.content ?? ''} after={after.data?.content ?? ''} />)}
        <Group justify="flex-end"><Button variant="default" onClick={close}>{words.cancel}</Button><Button color={deed === 'delete' ? 'red' : undefined} loading={isBusy} onClick={() => void apply()} data-autofocus>{{ rollback: say.rollBack, delete: words.remove, stop: say.stopGray }[deed]}</Button></Group>
      </Stack>
    </Dialog>
  )
}

/** What was done, newest first; each entry against the one before it. */
function History({ file }: { file: FileName }) {
  const words = useWords()
  const say = words.files
  const found = useHistory(file)
  const rows = found.data ?? []
  if (rows.length === 0) return null
  const before = (at: number) => rows.slice(at + 1).find((row) => row.type !== 'cancel-gray' && row.type !== 'delete')
  const isShown = (row: HistoryRow) => row.type !== 'cancel-gray' && row.type !== 'delete' && row.type !== 'clean'
  return (
    <section aria-label={words.history}>
      <Text component="h3" fw={600} size="sm" mb={4}>{words.history}</Text>
      <ol className="timeline">
        {rows.map((row, at) => (
          <li key={row.id}>
            <Text size="sm" component="div"><strong>{say.events[row.type as keyof typeof say.events] ?? row.type}</strong> <span className="mono">{row.name}</span>{row.releaseDescription && ` · ${row.releaseDescription}`} <Text span size="xs" c="dimmed"><Time at={secondsOf(row.createTime)} />{row.createBy && ` · ${row.createBy}`}</Text></Text>
            {isShown(row) && <details><summary><Text span size="xs" c="dimmed">{say.whatChanged}</Text></summary><Difference before={before(at)?.content ?? ''} after={row.content} /></details>}
          </li>
        ))}
      </ol>
    </section>
  )
}
