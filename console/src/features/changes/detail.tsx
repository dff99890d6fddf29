/** One change: what stood there before and after, and what takes it back. */
import { Anchor, Button, Stack, Table, Text } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { ApiError } from '../../api/client'
import { isKind } from '../../api/types'
import { useRefusal } from '../../ui/permission'
import { DeedBadge, Differences, kindWord, ObjectName } from '../../ui/change'
import { Difference } from '../../ui/difference'
import { textOf, Undoing } from '../../ui/undo'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { Time } from '../../ui/time'
import { useWords } from '../../words/words'
import { useChange } from '../../api/changes'

const api = getRouteApi('/changes/$name')

export function Change() {
  const words = useWords()
  const { name } = api.useParams()
  const found = useChange(name)
  const [isUndoing, undoing] = useDisclosure(false)
  const mayNot = useRefusal()
  const navigate = useNavigate()
  const { data, error } = found
  if (error instanceof ApiError && error.status === 404) return <><ScreenHead title={words.changes} /><Empty><span lang="en">{error.message}</span></Empty></>
  const refused = mayNot ?? (data?.undo_refused ? data.undo_refused : undefined)
  const isKnown = data !== undefined && isKind(data.kind)
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/changes">{words.changes}</Anchor> / {data ? words.revision(data.revision) : name}</Text>
      <ScreenHead title={data ? `${kindWord(words, data.kind, data.id)} ${data.title ?? data.id}` : words.changes}>
        {isKnown && <Button size="xs" variant="default" component={Link} to="/changes" search={{ kind: data.kind, id: data.id } as never}>{words.history}</Button>}
        {data && <Button size="xs" disabled={refused !== undefined} title={refused} onClick={undoing.open} data-undo>{words.undoChange}</Button>}
      </ScreenHead>
      {found.isError && <ErrorBox error={error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data ? (
        <Stack>
          <section className="card">
            <Table variant="vertical" withRowBorders={false}>
              <Table.Tbody>
                <Row label={words.deed}><DeedBadge deed={data.deed} />{data.undoes && <> <Anchor component={Link} to={`/changes/${data.undoes}`}>{words.undoneChange}</Anchor></>}</Row>
                <Row label={words.who}>{data.actor ?? words.anybody} · {words.ways[data.way as keyof typeof words.ways] ?? data.way}</Row>
                <Row label={words.time}><Time at={data.at_ms / 1000} stands /></Row>
                <Row label={words.object}>{data.current_revision !== null ? <ObjectName kind={data.kind} id={data.id} /> : <span className="mono">{data.id}</span>}</Row>
                {data.differences.length > 0 && data.before !== null && data.after !== null && <Row label={words.difference}><Differences rows={data.differences} hasMore={false} /></Row>}
                {data.context && <Row label={words.request}><span className="mono">{data.context}</span></Row>}
                {data.below.length > 0 && <Row label={words.wentWithIt}><span className="mono">{data.below.join(', ')}</span></Row>}
              </Table.Tbody>
            </Table>
          </section>
          {data.is_cut ? <Text c="dimmed">{words.changeCut}</Text> : <Difference before={textOf(data.before)} after={textOf(data.after)} />}
          <Text size="xs" c="dimmed">{words.changeSecrets}</Text>
        </Stack>
      ) : !found.isError && <Loading />}
      {data && isUndoing && <Undoing change={data} close={undoing.close} done={(revision) => void navigate({ to: `/changes/${revision}` })} />}
    </>
  )
}

function Row({ label, children }: { label: string; children: React.ReactNode }) {
  return <Table.Tr><Table.Th w={140} fw={500} c="dimmed" bg="transparent">{label}</Table.Th><Table.Td className="wrap">{children}</Table.Td></Table.Tr>
}
