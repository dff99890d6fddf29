/** One plugin: its manual, its fields, who uses it. */
import { Anchor, Button, Group, SimpleGrid, Stack, Table, Text, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { ApiError, json, query } from '../../api/client'
import type { ObjectRow, PluginRow } from '../../api/types'
import type { Schema } from '../../form/plan'
import { Inline, Markdown } from '../../ui/markdown'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'

const api = getRouteApi('/plugins/$name')

interface PluginDetail extends PluginRow { manual: string | null; schema: Schema | null; consumer_schema: Schema | null; metadata_schema: Schema | null }

export function Plugin() {
  const words = useWords()
  const { name } = api.useParams()
  const found = useQuery({
    queryKey: ['plugin', name],
    queryFn: ({ signal }) => json<PluginDetail>(`/console/v1/plugins/${encodeURIComponent(name)}`, { signal }),
  })
  const { data, error } = found
  const above = <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/plugins">{words.pluginsTitle}</Anchor> / <span className="mono">{name}</span></Text>
  if (error instanceof ApiError && error.status === 404) return <>{above}<ScreenHead title={name} /><Empty>{words.notServed}</Empty></>
  return (
    <>
      {above}
      <ScreenHead title={name} note={data && words.categories[data.category as keyof typeof words.categories]}>
        {data && <Button size="xs" variant="default" component={Link} to="/objects/routes" search={{ q: `plugin:${name}` } as never}>{words.routesWithIt}</Button>}
        {data?.has_metadata && <Metadata plugin={name} />}
      </ScreenHead>
      {found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data ? (
        <SimpleGrid cols={{ base: 1, md: 2 }} spacing="lg">
          <Stack gap="md">
            <Facts data={data} />
            {data.schema && <Fields title={words.fields} schema={data.schema} secrets={data.secret_fields} />}
            {data.consumer_schema && <Fields title={words.consumerFields} schema={data.consumer_schema} secrets={data.consumer_secret_fields} />}
            {data.metadata_schema && <Fields title={words.metadataFields} schema={data.metadata_schema} secrets={[]} />}
          </Stack>
          {data.manual && <section className="card"><Markdown text={data.manual} top={2} /></section>}
        </SimpleGrid>
      ) : !found.isError && <Loading rows={10} />}
    </>
  )
}

/** To what applies to all uses of a plugin, or to where it is written first. */
function Metadata({ plugin }: { plugin: string }) {
  const words = useWords()
  const { data } = useQuery({
    queryKey: ['objects', 'plugin_metadata', plugin],
    queryFn: ({ signal }) => json<{ rows: ObjectRow[] }>(`/console/v1/objects/plugin_metadata${query({ q: plugin, page_size: 100 })}`, { signal }),
  })
  if (data === undefined) return null
  const isThere = data.rows.some((row) => row.id === plugin)
  return <Button size="xs" variant="default" component={Link} to={isThere ? `/objects/plugin_metadata/${plugin}` : '/new/plugin_metadata'} search={(isThere ? {} : { of: plugin }) as never}>{words.ownMetadata}</Button>
}

function Facts({ data }: { data: PluginDetail }) {
  const words = useWords()
  const rows: [string, React.ReactNode][] = [
    [words.phases, <span key="p" lang="en">{data.phases.join(', ')}</span>],
    [words.priorityTitle, words.runsAt(data.priority)],
    [words.usedBy, words.usedByCount(data.used_by)],
    [words.belowHttp, data.serves_connections ? words.yes : words.no],
  ]
  return (
    <section className="card">
      <Table variant="vertical" withRowBorders={false}>
        <Table.Tbody>{rows.map(([label, text]) => <Table.Tr key={label}><Table.Th w={140} fw={500} c="dimmed" bg="transparent">{label}</Table.Th><Table.Td>{text}</Table.Td></Table.Tr>)}</Table.Tbody>
      </Table>
    </section>
  )
}

const typeOf = (schema: Schema) => schema.enum?.map(String).join(' | ') ?? (schema.type ? [schema.type].flat().join(' | ') : schema.oneOf || schema.anyOf ? (schema.oneOf ?? schema.anyOf ?? []).flatMap((it) => it.type ?? []).join(' | ') : '')

function Fields({ title, schema, secrets }: { title: string; schema: Schema; secrets: string[] }) {
  const words = useWords()
  const rows = Object.entries(schema.properties ?? {}).filter(([name]) => name !== '_meta')
  if (rows.length === 0) return null
  return (
    <section>
      <Title order={2} size="h4" mb="xs">{title}</Title>
      <Scroll>
        <Table>
          <Table.Thead><Table.Tr><Table.Th>{words.name}</Table.Th><Table.Th>{words.type}</Table.Th><Table.Th>{words.meaning}</Table.Th></Table.Tr></Table.Thead>
          <Table.Tbody>
            {rows.map(([name, field]) => (
              <Table.Tr key={name}>
                <Table.Td><span className="mono nowrap">{name}</span>{schema.required?.includes(name) && <Text size="xs" c="dimmed">{words.required}</Text>}{secrets.includes(name) && <Text size="xs" c="dimmed">{words.secretField}</Text>}</Table.Td>
                <Table.Td><Group gap={4}><span className="mono">{typeOf(field)}</span></Group>{field.default !== undefined && <Text size="xs" c="dimmed" className="mono">= {JSON.stringify(field.default)}</Text>}</Table.Td>
                <Table.Td><Text size="sm" lang="en"><Inline text={field.description ?? ''} /></Text></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Scroll>
    </section>
  )
}
