/** One configuration file: its content, what of it is not released yet, its releases, and the clients that wait for the next one. */
import { Badge, Button, Group, NativeSelect, SegmentedControl, Stack, Table, Text, TextInput } from '@mantine/core'
import { useBlocker } from '@tanstack/react-router'
import { useState } from 'react'
import { writePolaris } from '../../api/polaris'
import { Deletion } from '../../ui/deletion'
import { Difference } from '../../ui/difference'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { TextEditor } from './editor'
import { type ConfigFile, type FileName, inForce, type Release, secondsOf, useFile, useForgetConfig, useRelease, useReleases, useWatchers } from './queries'
import { Lock } from './lock'
import { ReleaseForm } from './release-form'
import { Releases } from './releases'
import { FORMATS, lineOf } from './tree'

export type FileTab = 'difference' | 'releases' | 'clients'

interface Props { file: FileName; tab: FileTab | undefined; show: (tab: FileTab | undefined) => void; gone: () => void }

export function OpenFile({ file, tab, show, gone }: Props) {
  const found = useFile(file)
  const releases = useReleases(file)
  if (found.data === undefined) return found.isError ? <ErrorBox error={found.error} retry={() => void found.refetch()} /> : <Loading />
  const version = `${found.data.modifyTime} ${found.data.content.length}`
  return <Editor key={version} file={file} stored={found.data} releases={releases.data ?? []} tab={tab} show={show} gone={gone} />
}

interface EditorProps extends Props { stored: ConfigFile; releases: Release[] }

function Editor({ file, stored, releases, tab, show, gone }: EditorProps) {
  const words = useWords()
  const say = words.files
  const forget = useForgetConfig()
  const refused = useRefusal('registry')
  const [content, setContent] = useState(stored.content)
  const [format, setFormat] = useState(stored.format)
  const [comment, setComment] = useState(stored.comment)
  const [tags, setTags] = useState(stored.tags.map((tag) => `${tag.key}=${tag.value}`).join(', '))
  const [fault, setFault] = useState<number>()
  const [error, setError] = useState<unknown>()
  const [isBusy, setBusy] = useState(false)
  const [isReleasing, setReleasing] = useState(false)
  const [isDeleting, setDeleting] = useState(false)
  const { all, gray } = inForce(releases)
  const parsed = tagsOf(tags)
  const isChanged = content !== stored.content || format !== stored.format || comment !== stored.comment || JSON.stringify(parsed) !== JSON.stringify(stored.tags.map(({ key, value }) => ({ key, value })))
  useBlocker({ shouldBlockFn: ({ current, next }) => isChanged && (current.pathname !== next.pathname || JSON.stringify(current.search) !== JSON.stringify(next.search)) && !confirm(words.unsaved), enableBeforeUnload: () => isChanged })
  const save = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await writePolaris('PUT', 'config/v1/configfiles', { ...file, content, format, comment, tags: parsed })
      await forget()
      return true
    } catch (reason) {
      setError(reason)
      return false
    } finally {
      setBusy(false)
    }
  }
  const pages = [{ value: 'content', label: say.content }, { value: 'difference', label: say.difference }, { value: 'releases', label: `${say.releases} ${releases.length || ''}`.trim() }, { value: 'clients', label: say.clients }]
  return (
    <Stack gap="sm">
      <Group justify="space-between" gap="xs">
        <Group gap="xs">
          <Text component="h2" fw={600} size="lg" m={0} className="wrap">{file.name}</Text>
          <ReleaseState stored={stored} all={all} gray={gray} />
          {stored.encrypted && <Badge variant="light" color="grape" tt="none" title={say.encryptHelp} leftSection={<Lock />}>{say.encrypted}</Badge>}
        </Group>
        <Group gap="xs">
          <Button size="xs" color="red" variant="subtle" disabled={refused !== undefined} title={refused} onClick={() => setDeleting(true)}>{words.remove}</Button>
          <Button size="xs" variant="default" disabled={!isChanged || refused !== undefined || parsed === undefined} title={refused} loading={isBusy} onClick={() => void save()}>{words.save}</Button>
          <Button size="xs" disabled={refused !== undefined || isChanged} title={refused ?? (isChanged ? say.saveFirst : undefined)} onClick={() => setReleasing(true)}>{say.release}</Button>
        </Group>
      </Group>
      {error !== undefined && <ErrorBox error={error} />}
      <Scroll><SegmentedControl size="xs" aria-label={words.view} value={tab ?? 'content'} data={pages} onChange={(value) => show(value === 'content' ? undefined : (value as FileTab))} /></Scroll>
      {tab === undefined && (
        <>
          <TextEditor label={say.content} value={content} set={refused === undefined ? (text) => { setContent(text); setFault(undefined) } : undefined} fault={fault} />
          <Group gap="sm" align="flex-start">
            <NativeSelect size="xs" label={say.format} value={format} data={[...new Set([...FORMATS, format])]} disabled={refused !== undefined} onChange={(event) => setFormat(event.currentTarget.value)} />
            <TextInput size="xs" className="grow" label={words.comment} value={comment} disabled={refused !== undefined} onChange={(event) => setComment(event.currentTarget.value)} />
            <TextInput size="xs" className="grow" label={say.tags} placeholder="team=a, tier=1" value={tags} error={parsed === undefined ? say.tagsFault : undefined} disabled={refused !== undefined} onChange={(event) => setTags(event.currentTarget.value)} />
          </Group>
          <Text size="xs" c="dimmed" component="div">{words.changed} <Time at={secondsOf(stored.modifyTime)} />{stored.modifyBy && ` · ${stored.modifyBy}`}</Text>
        </>
      )}
      {tab === 'difference' && <Pending file={file} content={content} all={all} />}
      {tab === 'releases' && <Releases file={file} stored={stored} releases={releases} />}
      {tab === 'clients' && <Clients file={file} all={all} gray={gray} />}
      {isReleasing && <ReleaseForm file={file} stored={stored} all={all} close={() => setReleasing(false)} refusedAt={(text) => { setReleasing(false); show(undefined); setFault(lineOf(text)) }} />}
      {isDeleting && <FileDeletion file={file} close={() => setDeleting(false)} gone={gone} />}
    </Stack>
  )
}

/** `a=b, c=d` as tags; undefined where a part is none. */
function tagsOf(text: string): { key: string; value: string }[] | undefined {
  const parts = text.split(',').map((part) => part.trim()).filter((part) => part !== '')
  const tags = parts.map((part) => ({ key: part.slice(0, Math.max(0, part.indexOf('='))).trim(), value: part.slice(part.indexOf('=') + 1).trim() }))
  return tags.every((tag) => tag.key !== '' && tag.value !== '') ? tags : undefined
}

function ReleaseState({ stored, all, gray }: { stored: ConfigFile; all: Release | undefined; gray: Release | undefined }) {
  const say = useWords().files
  return (
    <Group gap={4}>
      {all === undefined && gray === undefined && <StateBadge state="off" label={say.neverReleased} />}
      {all && <StateBadge state="good" label={say.releasedAs(all.name)} />}
      {gray && <StateBadge state="warn" label={say.grayAs(gray.name)} />}
      {stored.status === 'to-be-released' && all !== undefined && <StateBadge state="warn" label={say.states.pending} />}
    </Group>
  )
}

/** What clients do not have yet. */
function Pending({ file, content, all }: { file: FileName; content: string; all: Release | undefined }) {
  const words = useWords()
  const release = useRelease(file, all?.name)
  if (all === undefined) return <Stack gap="xs"><Text size="sm" c="dimmed">{words.files.neverReleasedHelp}</Text><Difference before="" after={content} /></Stack>
  if (release.data === undefined) return release.isError ? <ErrorBox error={release.error} /> : <Loading />
  return <Stack gap="xs"><Text size="sm" c="dimmed">{words.files.differenceHelp(all.name)}</Text><Difference before={release.data.content} after={content} /></Stack>
}

/** Clients that wait for the next release, and what each of them has. */
function Clients({ file, all, gray }: { file: FileName; all: Release | undefined; gray: Release | undefined }) {
  const words = useWords()
  const say = words.files
  const { data, isError, error } = useWatchers(file)
  if (isError) return <ErrorBox error={error} />
  if (data === undefined) return <Loading />
  if (data.total === 0) return <Empty>{say.noClients}</Empty>
  const of = (version: number) => (String(version) === gray?.version ? <StateBadge state="warn" label={say.grayAs(gray.name)} /> : String(version) === all?.version ? <StateBadge state="good" label={say.upToDate} /> : version === 0 ? <StateBadge state="off" label={say.hasNone} /> : <StateBadge state="bad" label={say.olderVersion} />)
  return (
    <>
      <Text size="sm" c="dimmed">{say.clientsHelp(data.total)}</Text>
      <Table>
        <Table.Thead><Table.Tr><Table.Th>{say.client}</Table.Th><Table.Th className="numbers">{say.version}</Table.Th><Table.Th>{words.state}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>{data.watchers.map((one, at) => <Table.Tr key={at}><Table.Td className="mono">{one.client}</Table.Td><Table.Td className="numbers">{one.version || '–'}</Table.Td><Table.Td>{of(one.version)}</Table.Td></Table.Tr>)}</Table.Tbody>
      </Table>
    </>
  )
}

function FileDeletion({ file, close, gone }: { file: FileName; close: () => void; gone: () => void }) {
  const words = useWords()
  const forget = useForgetConfig()
  const remove = async () => {
    await writePolaris('DELETE', 'config/v1/configfiles', undefined, { ...file })
    gone()
    await forget()
    close()
  }
  return <Deletion what={file.name} typed={file.name} help={words.files.deleteFileHelp} remove={remove} close={close} />
}
