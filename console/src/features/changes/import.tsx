/** A document becomes objects: pasted, dropped or chosen, looked at as a plan, and carried out as one change that can be taken
 * back. What would change is said by the gateway; nothing is compared here. */
import { Alert, Anchor, Button, Checkbox, Group, List, Stack, Table, Text, Textarea } from '@mantine/core'
import { Link, useNavigate } from '@tanstack/react-router'
import { type DragEvent, useRef, useState } from 'react'
import { useForgetting } from '../../api/changes'
import { ApiError } from '../../api/client'
import { announce } from '../../api/saved'
import { carryOut, DOCUMENT_BYTES_MAX, type Plan, type PlannedChange, planOf } from '../../api/transfer'
import { isKind } from '../../api/types'
import { quoted } from '../../lib/curl'
import { DeedBadge, Differences, ObjectName } from '../../ui/change'
import { CopyButton } from '../../ui/copy'
import { Difference } from '../../ui/difference'
import { useRefusal } from '../../ui/permission'
import { Scroll } from '../../ui/scroll'
import { Empty, ErrorBox, ScreenHead } from '../../ui/states'
import { useTask } from '../../ui/task'
import { useWords } from '../../words/words'

/** Differences that the row of an object shows before it is opened. */
const DIFFERENCES_SHOWN = 3

export function Import() {
  const words = useWords()
  const navigate = useNavigate()
  const forget = useForgetting()
  const refused = useRefusal()
  const [text, setText] = useState('')
  const [prune, setPrune] = useState(false)
  const [plan, setPlan] = useState<Plan>()
  const { run, isBusy, error, fail } = useTask()
  const write = (next: string) => {
    setText(next)
    // A plan is of the document that it was made of.
    setPlan(undefined)
    fail(undefined)
  }
  const look = () => run(async () => setPlan(await planOf(text, prune)))
  const apply = (made: Plan) => run(async () => {
    const revision = await carryOut(text, prune, made)
    await forget()
    announce({ kind: 'import', id: 'objects' })
    await navigate({ to: revision === undefined ? '/changes' : `/changes/${revision}` })
  })
  const isStale = error instanceof ApiError && error.status === 412
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/changes">{words.changes}</Anchor> / {words.importTitle}</Text>
      <ScreenHead title={words.importTitle} note={words.importHelp}>
        <CopyButton label={words.copyCurl} text={() => `curl -X POST ${quoted(`${location.origin}/console/v1/import?dry_run=true${prune ? '&prune=true' : ''}`)} -H "X-API-KEY: $ADMIN_KEY" --data-binary @objects.yaml`} />
      </ScreenHead>
      <Stack>
        <Source text={text} write={write} fail={fail} isOff={isBusy} />
        <Checkbox label={words.prune} description={words.pruneHelp} checked={prune} onChange={(event) => { setPrune(event.currentTarget.checked); setPlan(undefined) }} />
        <Group>
          <Button onClick={() => void look()} loading={isBusy && plan === undefined} disabled={refused !== undefined || text.trim() === ''} title={refused}>{plan ? words.planAgain : words.planIt}</Button>
          {refused !== undefined && <Text size="sm" c="dimmed">{refused}</Text>}
        </Group>
        {error !== undefined && <ErrorBox error={error} retry={isStale ? () => void look() : undefined} />}
        {plan && <Planned plan={plan} refused={refused} isBusy={isBusy} apply={() => void apply(plan)} />}
      </Stack>
    </>
  )
}

/** Where the document comes from: the clipboard, a file that is dropped, or one that is chosen. */
function Source({ text, write, fail, isOff }: { text: string; write: (text: string) => void; fail: (reason: unknown) => void; isOff: boolean }) {
  const words = useWords()
  const [isOver, over] = useState(false)
  const chooser = useRef<HTMLInputElement>(null)
  const read = async (file: File | undefined) => {
    if (file === undefined) return
    if (file.size > DOCUMENT_BYTES_MAX) return fail(new Error(words.fileTooLarge(file.name, DOCUMENT_BYTES_MAX / 1024 / 1024)))
    write(await file.text())
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    over(false)
    void read(event.dataTransfer.files[0])
  }
  return (
    <div className={isOver ? 'drop over' : 'drop'} onDragOver={(event) => { event.preventDefault(); over(true) }} onDragLeave={() => over(false)} onDrop={drop}>
      <Textarea className="editor" label={words.document} description={words.documentHelp} spellCheck={false} autosize minRows={8} maxRows={20} readOnly={isOff}
        placeholder={'routes:\n  - id: orders\n    uri: /orders/*\n    upstream_id: orders\n#END'} value={text} onChange={(event) => write(event.currentTarget.value)} />
      <input ref={chooser} type="file" accept=".yaml,.yml,.json,application/yaml,application/json" hidden aria-label={words.chooseFile} onChange={(event) => { void read(event.currentTarget.files?.[0]); event.currentTarget.value = '' }} />
      <Button mt="xs" size="xs" variant="default" disabled={isOff} onClick={() => chooser.current?.click()}>{words.chooseFile}</Button>
    </div>
  )
}

function Planned({ plan, refused, isBusy, apply }: { plan: Plan; refused: string | undefined; isBusy: boolean; apply: () => void }) {
  const words = useWords()
  const { created, replaced, deleted, unchanged, left } = plan
  const isNothing = plan.changes.length === 0
  return (
    <Stack>
      <Text fw={600} role="status">{words.planCounts(created, replaced, deleted, unchanged, left)}</Text>
      {plan.problems.length > 0 && <Problems plan={plan} />}
      {plan.too_large !== null && <Alert color="red" variant="light" role="alert"><Text size="sm" lang="en">{plan.too_large}</Text></Alert>}
      {isNothing ? <Empty>{words.planNothing}</Empty> : <Scroll><Changes rows={plan.changes} /></Scroll>}
      {plan.more > 0 && <Text size="sm" c="dimmed">{words.planMore(plan.more)}</Text>}
      {!isNothing && plan.valid && !plan.can_be_undone && <Alert color="yellow" variant="light" role="alert"><Text size="sm">{words.planNoUndo}</Text></Alert>}
      {!isNothing && (
        <Group>
          <Button data-autofocus color={deleted > 0 ? 'red' : undefined} loading={isBusy} disabled={!plan.valid || refused !== undefined} title={refused ?? (plan.valid ? undefined : words.planFaults)} onClick={apply}>{words.carryOut(created + replaced + deleted)}</Button>
          <Text size="sm" c="dimmed">{plan.valid ? words.planRevision(plan.revision) : words.planFaults}</Text>
        </Group>
      )}
    </Stack>
  )
}

function Problems({ plan }: { plan: Plan }) {
  const words = useWords()
  return (
    <Alert color={plan.valid ? 'yellow' : 'red'} variant="light" role="alert" title={words.planProblems(plan.problem_count)}>
      <List size="sm" lang="en">
        {plan.problems.map((problem, at) => (
          <List.Item key={at}><span className="mono">{problem.place}{problem.pointer}</span>: {problem.text}{problem.hint && `; ${problem.hint}`}</List.Item>
        ))}
      </List>
    </Alert>
  )
}

const textOf = (value: unknown) => (value === null ? '' : JSON.stringify(value, null, 2))

function Changes({ rows }: { rows: PlannedChange[] }) {
  const words = useWords()
  const [opened, open] = useState<string>()
  return (
    <Table highlightOnHover>
      <Table.Thead><Table.Tr><Table.Th>{words.plannedDeed}</Table.Th><Table.Th>{words.object}</Table.Th><Table.Th className="hide-narrow">{words.difference}</Table.Th><Table.Th><span className="unseen">{words.view}</span></Table.Th></Table.Tr></Table.Thead>
      <Table.Tbody>
        {rows.map((row) => {
          const key = `${row.kind}/${row.id}`
          const isOpen = opened === key
          const differences = row.differences ?? []
          return [
            <Table.Tr key={key}>
              <Table.Td><DeedBadge deed={row.deed} /></Table.Td>
              <Table.Td><Text size="xs" c="dimmed">{isKind(row.kind) ? words[row.kind] : row.kind}</Text>{row.before === null ? <span className="mono">{row.id}</span> : <ObjectName kind={row.kind} id={row.id} />}</Table.Td>
              <Table.Td className="hide-narrow"><Differences rows={differences.slice(0, DIFFERENCES_SHOWN)} hasMore={differences.length > DIFFERENCES_SHOWN} /></Table.Td>
              <Table.Td><Button size="compact-xs" variant="default" aria-expanded={isOpen} aria-label={`${words.difference}: ${key}`} onClick={() => open(isOpen ? undefined : key)}>{words.difference}</Button></Table.Td>
            </Table.Tr>,
            isOpen && <Table.Tr key={`${key} whole`}><Table.Td colSpan={4}><Difference before={textOf(row.before)} after={textOf(row.after)} /></Table.Td></Table.Tr>,
          ]
        })}
      </Table.Tbody>
    </Table>
  )
}
