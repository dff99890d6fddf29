/** One group of configuration files: its files as a tree, and beside it the file that is open. */
import { Anchor, Button, Text, TextInput } from '@mantine/core'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { fetchArchive } from '../../api/polaris'
import { saveAs } from '../../lib/save'
import { useRefusal } from '../../ui/permission'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import '../../ui/registry.css'
import { useWords } from '../../words/words'
import { OpenFile } from './file'
import { ImportForm } from './import-form'
import { Lock } from './lock'
import { NewFile } from './new-file'
import { type ConfigFile, useFiles } from './queries'
import { type Folder, treeOf } from './tree'

const api = getRouteApi('/config/$namespace/$group')

type Row = Omit<ConfigFile, 'content'>

export function ConfigFiles() {
  const words = useWords()
  const say = words.files
  const { namespace, group } = api.useParams()
  const { file, tab } = api.useSearch()
  const navigate = api.useNavigate()
  const refused = useRefusal('registry')
  const found = useFiles(namespace, group)
  const [filter, setFilter] = useState('')
  const [isNew, setNew] = useState(false)
  const [isImporting, setImporting] = useState(false)
  const [error, setError] = useState<unknown>()
  const { data } = found
  const rows = data?.list ?? []
  const shown = rows.filter((row) => row.name.toLowerCase().includes(filter.toLowerCase()))
  const open = (name: string | undefined) => void navigate({ search: name === undefined ? {} : { file: name } })
  const unreleased = rows.filter((row) => row.status === 'to-be-released').length
  const exported = () =>
    fetchArchive('config/v1/configfiles/export', { namespace, groups: [group] })
      .then((archive) => { saveAs(`${namespace}-${group}.zip`, archive, 'application/zip'); setError(undefined) }, setError)
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/config">{say.title}</Anchor> / {namespace}</Text>
      <ScreenHead title={group} note={data && say.filesNote(data.total, unreleased)}>
        <Button size="xs" variant="default" onClick={() => void exported()} disabled={rows.length === 0}>{say.export}</Button>
        <Button size="xs" variant="default" disabled={refused !== undefined} title={refused} onClick={() => setImporting(true)}>{say.import}</Button>
        <Button size="xs" data-new disabled={refused !== undefined} title={refused} onClick={() => setNew(true)}>{say.newFile}</Button>
      </ScreenHead>
      {error !== undefined && <ErrorBox error={error} />}
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : rows.length === 0 && file === undefined ? (
        <Empty>{say.noFiles} <Button variant="subtle" size="xs" disabled={refused !== undefined} onClick={() => setNew(true)}>{say.newFile}</Button></Empty>
      ) : (
        <div className="beside">
          <nav className="card filetree" aria-label={say.files}>
            <TextInput data-filter size="xs" mb="xs" aria-label={say.filterFiles} placeholder={say.filterFiles} value={filter} onChange={(event) => setFilter(event.currentTarget.value)} />
            <Branch folder={treeOf(shown)} current={file} isOpen={filter !== ''} open={open} />
            {data.isCut && <Text size="xs" c="dimmed">{say.cut(rows.length)}</Text>}
          </nav>
          <div className="grow">
            {file === undefined ? <Empty>{say.chooseFile}</Empty> : <OpenFile key={`${namespace}/${group}/${file}`} file={{ namespace, group, name: file }} tab={tab} show={(next) => void navigate({ search: { file, tab: next }, replace: true })} gone={() => open(undefined)} />}
          </div>
        </div>
      )}
      {isNew && <NewFile namespace={namespace} group={group} close={() => setNew(false)} done={(name) => { setNew(false); open(name) }} />}
      {isImporting && <ImportForm namespace={namespace} group={group} close={() => setImporting(false)} />}
    </>
  )
}

interface BranchProps { folder: Folder<Row>; current: string | undefined; isOpen: boolean; open: (name: string) => void }

/** A folder of the tree; `isOpen` opens all folders below, as a filter asks for. */
function Branch({ folder, current, isOpen, open }: BranchProps) {
  const words = useWords()
  const state = (row: Row) => (row.status === 'to-be-released' ? 'pending' : row.status === 'betaing' ? 'gray' : 'released')
  return (
    <ul className="tree">
      {folder.folders.map((one) => (
        <li key={one.path}>
          <details open={isOpen || current?.startsWith(`${one.path}/`) || folder.path === ''}>
            <summary>{one.name || '/'}/</summary>
            <Branch folder={one} current={current} isOpen={isOpen} open={open} />
          </details>
        </li>
      ))}
      {folder.files.map(({ label, file }) => (
        <li key={file.name}>
          <button type="button" className="treefile" aria-current={file.name === current ? 'page' : undefined} onClick={() => open(file.name)}>
            <span className="grow">{label}{file.encrypted && <> <Lock label={words.files.encrypted} /></>}</span>
            <span className={`treestate ${state(file)}`} title={words.files.states[state(file)]} aria-label={words.files.states[state(file)]} role="img">{{ pending: '▲', gray: '◐', released: '●' }[state(file)]}</span>
          </button>
        </li>
      ))}
    </ul>
  )
}
