/** What uses an object, what it uses, and what has become of it. What it holds is shown elsewhere. */
import { Anchor, SimpleGrid, Table, Text, Title } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useChanges } from '../../api/changes'
import { json } from '../../api/client'
import { type Kind, type ObjectFacts, pageOf, type Place } from '../../api/types'
import { DeedBadge, Differences } from '../../ui/change'
import { Scroll } from '../../ui/scroll'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'

/** Changes that are shown beside an object; the rest stand on the page of changes. */
const CHANGES_SHOWN = 5

export const useFacts = (kind: string, id: string | undefined) =>
  useQuery({
    queryKey: ['facts', kind, id],
    enabled: id !== undefined,
    refetchInterval: 10_000,
    queryFn: ({ signal }) => json<ObjectFacts>(`/console/v1/objects/${kind}/${encodeURIComponent(id ?? '')}`, { signal }),
  })

/** Who names an object, what it names itself, and what was done to it. */
export function About({ kind, id }: { kind: Kind; id: string }) {
  const words = useWords()
  const { data } = useFacts(kind, id)
  return (
    <SimpleGrid cols={{ base: 1, md: 2 }}>
      <section aria-labelledby="used">
        <Title order={2} size="h4" mb="xs" id="used">{words.usedBy}</Title>
        {data && <Places rows={data.used_by} none={words.usedByNone} />}
        {data && data.used_by_total > data.used_by.length && <Text size="sm" c="dimmed">{words.shown(1, data.used_by.length, data.used_by_total)}</Text>}
        {data && data.uses.length > 0 && <><Title order={2} size="h4" mt="md" mb="xs">{words.uses}</Title><Places rows={data.uses} none="" /></>}
      </section>
      <History kind={kind} id={id} />
    </SimpleGrid>
  )
}

function Places({ rows, none }: { rows: Place[]; none: string }) {
  const words = useWords()
  if (rows.length === 0) return <Text size="sm" c="dimmed">{none}</Text>
  return (
    <ul className="places">
      {rows.map(({ kind, id, exists }) => {
        const label = `${words.oneOf[kind as Kind] ?? kind} ${id}`
        const page = exists === false ? undefined : pageOf(kind, id)
        return <li key={`${kind}/${id}`}>{page ? <Anchor component={Link} to={page}>{label}</Anchor> : label}{exists === false && <Text span size="sm" c="red"> {words.missing}</Text>}</li>
      })}
    </ul>
  )
}

function History({ kind, id }: { kind: Kind; id: string }) {
  const words = useWords()
  const { data } = useChanges({ kind, id, limit: CHANGES_SHOWN }, 10_000)
  return (
    <section aria-labelledby="history">
      <Title order={2} size="h4" mb="xs" id="history">{words.history}</Title>
      {data && data.rows.length === 0 && <Text size="sm" c="dimmed">{words.historyNone}</Text>}
      {data && data.rows.length > 0 && (
        <Scroll><Table>
          <Table.Tbody>
            {data.rows.map((row) => (
              <Table.Tr key={row.name}>
                <Table.Td className="nowrap"><Anchor component={Link} to={`/changes/${row.name}`}><Time at={row.at_ms / 1000} /></Anchor></Table.Td>
                <Table.Td className="nowrap">{row.actor ?? words.anybody}</Table.Td>
                <Table.Td><DeedBadge deed={row.deed} /></Table.Td>
                <Table.Td className="hide-narrow"><Differences rows={row.differences} hasMore={row.has_more} /></Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table></Scroll>
      )}
      {data && data.total > data.rows.length && <Anchor component={Link} to="/changes" search={{ kind, id } as never} size="sm">{words.allChanges(data.total)}</Anchor>}
    </section>
  )
}
