/** All plugins by what they are for. */
import { Anchor, Group, SegmentedControl, SimpleGrid, Stack, Text, TextInput, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { json } from '../../api/client'
import type { PluginRow } from '../../api/types'
import { Count } from '../../ui/count'
import { Icon, PURPOSE_ICONS } from '../../ui/icons'
import { ErrorBox, Loading, NoMatch, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'

const api = getRouteApi('/plugins')

/** Purposes in the order in which people look for them. */
const CATEGORIES = ['authentication', 'security', 'traffic', 'transformation', 'observability', 'utility'] as const

export function Plugins() {
  const words = useWords()
  const { q = '', used } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['plugins'],
    refetchInterval: 30_000,
    queryFn: ({ signal }) => json<{ rows: PluginRow[] }>('/console/v1/plugins', { signal }),
  })
  const search = q.toLowerCase()
  const rows = (found.data?.rows ?? []).filter((row) =>
    (!used || row.used_by > 0) && (row.name.includes(search) || (row.summary ?? '').toLowerCase().includes(search)))
  return (
    <>
      <ScreenHead title={words.pluginsTitle} note={words.pluginsHelp} />
      <Group mb="md" gap="sm">
        <TextInput data-filter className="filterbox" aria-label={words.filterPlugins} placeholder={words.filterPlugins} value={q}
          onChange={(event) => void navigate({ search: { q: event.currentTarget.value || undefined, used }, replace: true })} />
        <SegmentedControl size="xs" aria-label={words.view} value={used ? 'used' : 'all'} data={[{ value: 'all', label: words.allPlugins }, { value: 'used', label: words.usedPlugins }]}
          onChange={(value) => void navigate({ search: { q: q || undefined, used: value === 'used' || undefined }, replace: true })} />
        {found.data && <Count text={words.pluginsCount(rows.length)} asked={`${q} ${used}`} isOld={false} />}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {found.data === undefined ? !found.isError && <Loading /> : rows.length === 0 ? <NoMatch filters={[q, used ? words.usedPlugins : undefined]} clear={() => void navigate({ search: {} })} /> : (
        <Stack gap="lg">
          {CATEGORIES.map((category) => ({ category, own: rows.filter((row) => row.category === category) })).filter(({ own }) => own.length > 0).map(({ category, own }) => (
            <section key={category} aria-labelledby={category}>
              <Title order={2} size="h4" id={category} mb="xs" className="with-icon"><Icon name={PURPOSE_ICONS[category]} />{words.categories[category]}</Title>
              <SimpleGrid cols={{ base: 1, xs: 2, md: 3, lg: 4 }} spacing="sm">{own.map((row) => <Card key={row.name} row={row} />)}</SimpleGrid>
            </section>
          ))}
        </Stack>
      )}
    </>
  )
}

function Card({ row }: { row: PluginRow }) {
  const words = useWords()
  return (
    <article className="card">
      <Group justify="space-between" wrap="nowrap" gap="xs">
        <Anchor component={Link} to={`/plugins/${row.name}`} fw={600} className="plugin-link">{row.name}</Anchor>
        {row.used_by > 0 && <Text size="xs" c="dimmed" className="nowrap">{words.usedByCount(row.used_by)}</Text>}
      </Group>
      <Text size="sm" lang="en" lineClamp={3}>{row.summary?.replaceAll('`', '')}</Text>
      <Text size="xs" c="dimmed" mt={4}><span lang="en">{row.phases.join(', ')}</span> · {words.priority} {row.priority}</Text>
    </article>
  )
}
