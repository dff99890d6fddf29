/** What the process was told at its start, with what each setting means. They change with a restart. */
import { SegmentedControl, Stack, Table, Text, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi } from '@tanstack/react-router'
import { json } from '../../api/client'
import { useOverview } from '../../api/live'
import type { Setting } from '../../api/types'
import { Inline } from '../../ui/markdown'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { Doctor, ProcessLog } from './process'

const api = getRouteApi('/settings')
const ROWS = 40

export function Settings() {
  const words = useWords()
  const { q = '', all, page = 1, tab = 'settings' } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['settings'],
    queryFn: ({ signal }) => json<{ rows: Setting[] }>('/console/v1/settings', { signal }),
  })
  const search = q.toLowerCase()
  const rows = (found.data?.rows ?? []).filter((row) =>
    (all || search !== '' || !row.is_default) && (row.name.includes(search) || row.doc.toLowerCase().includes(search)))
  return (
    <>
      <ScreenHead title={words.settings} note={words.settingsHelp} />
      <SegmentedControl mb="md" size="xs" aria-label={words.view} value={tab} data={[{ value: 'settings', label: words.settings }, { value: 'doctor', label: words.doctor }, { value: 'log', label: words.log }]}
        onChange={(value) => void navigate({ search: value === 'settings' ? {} : { tab: value as 'doctor' | 'log' }, replace: true })} />
      {tab === 'doctor' && <Doctor />}
      {tab === 'log' && <ProcessLog />}
      {tab === 'settings' && <Stack gap="md">
        <About />
        <div className="filterrow">
          <TextInput data-filter className="filterbox" aria-label={words.filterSettings} placeholder={words.filterSettings} value={q}
            onChange={(event) => void navigate({ search: { q: event.currentTarget.value || undefined, all }, replace: true })} />
          <SegmentedControl size="xs" aria-label={words.view} value={all ? 'all' : 'set'} data={[{ value: 'set', label: words.settingsSet }, { value: 'all', label: words.settingsAll }]}
            onChange={(value) => void navigate({ search: { q: q || undefined, all: value === 'all' || undefined }, replace: true })} />
        </div>
        {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
        {found.data === undefined ? !found.isError && <Loading /> : rows.length === 0 ? (q ? <NoMatch filters={[q]} clear={() => void navigate({ search: { all } })} /> : <Empty>{words.settingsNone}</Empty>) : (
          <>
            <Rows rows={rows.slice((page - 1) * ROWS, page * ROWS)} />
            <Pager page={page} rows={ROWS} shown={Math.max(0, Math.min(ROWS, rows.length - (page - 1) * ROWS))} total={rows.length} turn={(to) => void navigate({ search: { q: q || undefined, all, page: to > 1 ? to : undefined } })} />
          </>
        )}
      </Stack>}
    </>
  )
}

function About() {
  const words = useWords()
  const { data } = useOverview()
  if (data === undefined) return null
  return (
    <section className="card">
      <dl className="facts">
          {([
            [words.version, data.version], [words.host, data.hostname], [words.source, <span key="s" lang="en">{data.source}</span>], [words.started, <Time key="t" at={data.started_at} stands />],
            [words.listens, <span key="l" className="mono">{Object.entries(data.listeners).map(([name, addresses]) => `${name} ${addresses.join(' ')}`).join(' · ')}</span>],
          ] as [string, React.ReactNode][]).map(([label, text]) => (
            <div key={label} className={label === words.listens || label === words.source ? 'wide' : undefined}><dt>{label}</dt><dd>{text}</dd></div>
          ))}
      </dl>
    </section>
  )
}

/** A setting a row: its name, and beside it what it is set to and what that means. */
function Rows({ rows }: { rows: Setting[] }) {
  const words = useWords()
  return (
    <Scroll>
      <Table className="settings">
        <Table.Thead><Table.Tr><Table.Th>{words.setting}</Table.Th><Table.Th>{words.settingValue}</Table.Th><Table.Th>{words.meaning}</Table.Th></Table.Tr></Table.Thead>
        <Table.Tbody>
          {rows.map((row) => (
            <Table.Tr key={row.name}>
              <Table.Td><span className="mono setting-name">{row.name}</span></Table.Td>
              <Table.Td>
                <Text className="mono wrap" fw={row.is_default ? undefined : 650} component="div">{row.value === '' ? '–' : row.value}</Text>
                {!row.is_default && <Text size="xs" c="dimmed" component="div">{words.defaultOf} <span className="mono">{row.default === '' ? '–' : row.default}</span></Text>}
              </Table.Td>
              <Table.Td><Text size="sm" lang="en" component="div"><Inline text={row.doc} /></Text><Text size="xs" c="dimmed" className="mono">{row.variable}</Text></Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Scroll>
  )
}
