/** All certificates: for which names, until when, and what is wrong with them. A private key is never here. */
import { Anchor, Button, Group, Modal, Table, Text, TextInput } from '@mantine/core'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { useState } from 'react'
import { json, query } from '../../api/client'
import type { CertificateRow } from '../../api/types'
import { useRefusal } from '../../ui/permission'
import { quoted } from '../../lib/curl'
import { Count } from '../../ui/count'
import { Pager } from '../../ui/pager'
import { Scroll } from '../../ui/scroll'
import { Command, Empty, ErrorBox, Loading, NoMatch, ScreenHead, StateBadge } from '../../ui/states'
import { Time } from '../../ui/time'
import { useLanguage, useWords } from '../../words/words'
import { Renewal } from './renew'

const api = getRouteApi('/certificates')
const ROWS = 50

export function Certificates() {
  const words = useWords()
  const { q, page = 1, id } = api.useSearch()
  const navigate = api.useNavigate()
  const found = useQuery({
    queryKey: ['certificates', q, page],
    refetchInterval: 30_000,
    placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ total: number; rows: CertificateRow[] }>(`/console/v1/certificates${query({ q, page, page_size: ROWS })}`, { signal }),
  })
  const { data } = found
  const refused = useRefusal()
  const rows = [...(data?.rows ?? [])].sort((a, b) => (a.not_after ?? 0) - (b.not_after ?? 0))
  const chosen = rows.find((row) => row.id === id)
  const [renewed, renew] = useState<CertificateRow>()
  const [search, setSearch] = useState(q ?? '')
  return (
    <>
      <ScreenHead title={words.ssls} note={words.certificatesHelp}>
        <Button component={Link} to="/new/ssls" size="sm" disabled={refused !== undefined} title={refused}>{words.newOf(words.oneOf.ssls)}</Button>
      </ScreenHead>
      <Group mb="md" gap="sm">
        <TextInput data-filter className="filterbox" aria-label={words.filterCertificates} placeholder={words.filterCertificates} value={search}
          onChange={(event) => { setSearch(event.currentTarget.value); void navigate({ search: { q: event.currentTarget.value || undefined }, replace: true }) }} />
        {data && <Count text={words.total(data.total)} asked={q ?? ''} isOld={found.isPlaceholderData} />}
      </Group>
      {found.isError && <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} />}
      {data === undefined ? !found.isError && <Loading /> : rows.length === 0 && q ? <NoMatch filters={[q]} clear={() => { setSearch(''); void navigate({ search: {} }) }} /> : rows.length === 0 ? <FirstCertificate /> : (
        <Scroll>
          <Table highlightOnHover>
            <Table.Thead><Table.Tr>
              <Table.Th>{words.certificateNames}</Table.Th><Table.Th>{words.state}</Table.Th><Table.Th>{words.ends}</Table.Th><Table.Th className="hide-narrow">{words.issuer}</Table.Th><Table.Th className="hide-narrow">{words.usedFor}</Table.Th>
            </Table.Tr></Table.Thead>
            <Table.Tbody>
              {rows.map((row) => (
                <Table.Tr key={row.id}>
                  <Table.Td>
                    <Anchor component="button" type="button" className="rowlink" onClick={() => void navigate({ search: { q, page: page > 1 ? page : undefined, id: row.id } })}>{(row.names ?? [row.id]).slice(0, 3).join(', ')}</Anchor>
                    <Text size="xs" c="dimmed" className="mono">{row.id}{row.renews_itself && ` · ${words.renewsItself}`}</Text>
                  </Table.Td>
                  <Table.Td><Verdict row={row} /></Table.Td>
                  <Table.Td><Ends row={row} /></Table.Td>
                  <Table.Td className="hide-narrow"><Text size="sm" lang="en">{row.issuer}</Text></Table.Td>
                  <Table.Td className="hide-narrow">{row.type === 'client' ? words.forNodes : row.asks_clients ? words.forClientsAsked : words.forClients}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Scroll>
      )}
      {data && data.total > ROWS && <Pager page={page} rows={ROWS} shown={rows.length} total={data.total} turn={(to) => void navigate({ search: { q, page: to > 1 ? to : undefined } })} />}
      {renewed && <Renewal row={renewed} close={() => renew(undefined)} />}
      {chosen && renewed === undefined && <Detail row={chosen} refused={refused} renew={() => renew(chosen)} close={() => void navigate({ search: { q, page: page > 1 ? page : undefined } })} />}
    </>
  )
}

/** How the first certificate comes: from a form, from acme, or, for a test, from two commands. */
function FirstCertificate() {
  const words = useWords()
  const commands = [
    'openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 30 -subj /CN=shop.example.com \\\n  -addext subjectAltName=DNS:shop.example.com -keyout key.pem -out cert.pem',
    `jq -n --rawfile cert cert.pem --rawfile key key.pem '{snis: ["shop.example.com"], cert: $cert, key: $key}' \\\n  | curl -X PUT ${quoted(`${location.origin}/apisix/admin/ssls/shop`)} -H "X-API-KEY: $ADMIN_KEY" -d @-`,
  ]
  return <Empty icon="certificates" title={words.noCertificatesTitle}>{words.noCertificates} {words.certificateForTest}<Command text={commands.join('\n')} /></Empty>
}

/** When a certificate ends, in the whole days that are left, as its faults count them. */
function Ends({ row }: { row: CertificateRow }) {
  const words = useWords()
  const { language } = useLanguage()
  if (row.not_after === undefined) return <>–</>
  const exact = new Date(row.not_after * 1000).toLocaleString(language)
  return <span title={exact}>{row.days_left === undefined ? exact : words.inDays(row.days_left)}</span>
}

function Verdict({ row }: { row: CertificateRow }) {
  const words = useWords()
  if (row.is_off) return <StateBadge state="off" label={words.off} />
  const [first] = row.faults
  if (first === undefined) return <StateBadge state="good" label={words.inOrder} />
  const isOver = (row.days_left ?? 0) <= 0 || row.names === undefined
  return <><StateBadge state={isOver ? 'bad' : 'warn'} label={words.faultCount(row.faults.length)} /><Text size="xs" lang="en">{row.faults.join('; ')}</Text></>
}

function Detail({ row, refused, renew, close }: { row: CertificateRow; refused: string | undefined; renew: () => void; close: () => void }) {
  const words = useWords()
  const hosts = [row.snis ?? []].flat()
  const rows: [string, React.ReactNode][] = [
    [words.certificateNames, row.names?.join(', ')],
    [words.hostsServed, hosts.join(', ')],
    [words.subject, row.subject],
    [words.issuer, row.issuer],
    [words.begins, <Time key="b" at={row.not_before} />],
    [words.ends, <Time key="e" at={row.not_after} />],
    [words.daysLeft, row.days_left],
    [words.intermediates, row.intermediates],
    [words.serial, row.serial],
    [words.fingerprint, row.fingerprint],
    [words.faultsTitle, row.faults.join('; ')],
  ]
  return (
    <Modal opened onClose={close} size="lg" title={row.id}>
      <Table variant="vertical" withRowBorders={false}>
        <Table.Tbody>
          {rows.filter(([, text]) => text !== undefined && text !== '').map(([label, text]) => (
            <Table.Tr key={label}><Table.Th w={150} fw={500} c="dimmed" bg="transparent">{label}</Table.Th><Table.Td className="wrap" lang="en">{text}</Table.Td></Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
      <Text size="sm" c="dimmed" mt="sm">{words.keyNeverShown}</Text>
      <Group justify="flex-end" mt="md">
        {!row.renews_itself && <Button disabled={refused !== undefined} title={refused} onClick={renew}>{words.renew}</Button>}
        <Button variant="default" component={Link} to={`/objects/ssls/${encodeURIComponent(row.id)}`}>{words.openObject}</Button>
      </Group>
    </Modal>
  )
}
