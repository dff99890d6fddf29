/** The members of an object: those of its schema, and those that nobody knows. */
import { Button, Group, NativeSelect, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Path } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { Field } from '../field'
import { isRecord, type Plan, type Schema, startOf } from '../plan'

type ObjectPlan = Extract<Plan, { kind: 'object' }>

/** Members that are the gateway's to write. */
const NOT_WRITTEN = new Set(['id', 'create_time', 'update_time'])

/** Members that people look for first, shown before they are set; a plural one takes the place of its singular. */
const FIRST: Record<string, string | undefined> = {
  name: undefined, desc: undefined, uri: 'uris', host: 'hosts', methods: undefined, username: undefined, plugins: undefined, upstream: 'upstream_id', nodes: 'service_name', snis: 'sni',
}

/** The members of an object: those that are there, those that must be, and a list of those that may be. */
export function ObjectFields({ path, plan, value }: { path: Path; plan: ObjectPlan; value: unknown }) {
  const words = useWords()
  const { set } = useForm()
  const fields = isRecord(value) ? value : {}
  const isTop = path.length === 0
  const isFirst = (name: string) => isTop && name in FIRST && !(FIRST[name] !== undefined && (FIRST[name] as string) in fields)
  const members = plan.members.filter((member) => !NOT_WRITTEN.has(member.name))
  const drawn = members.filter((member) => member.name in fields || member.isRequired || isFirst(member.name))
  const open = members.filter((member) => !drawn.includes(member))
  const known = new Set(plan.members.map((member) => member.name))
  const others = Object.keys(fields).filter((name) => !known.has(name) && !(isTop && NOT_WRITTEN.has(name)))
  const add = (name: string) => {
    const member = open.find((it) => it.name === name)
    if (member) set([...path, name], startOf(member.schema, name))
  }
  return (
    <Stack gap="sm">
      {plan.groups.map((group, at) => (
        <Text key={at} size="xs" c="dimmed">{words.groupOf[group.count]} <span className="mono">{group.sides.map((side) => side.join(' + ')).join(' · ')}</span></Text>
      ))}
      {drawn.map((member) => (
        <Field
          key={member.name} path={[...path, member.name]} schema={member.schema} value={fields[member.name]} label={member.name}
          isRequired={member.isRequired} isSecret={member.isSecret} canRemove={!member.isRequired}
        />
      ))}
      {plan.rest === undefined
        ? others.map((name) => <Field key={name} path={[...path, name]} schema={{ description: words.notInSchema }} value={fields[name]} label={name} canRemove />)
        : <Rows path={path} names={others} fields={fields} schema={plan.rest} />}
      {open.length > 0 && (
        <NativeSelect
          aria-label={words.addFieldTo(String(path.at(-1) ?? ''))} size="xs" maw={280} value=""
          data={[{ value: '', label: words.addField }, ...open.map((member) => member.name)]}
          onChange={(event) => add(event.currentTarget.value)}
        />
      )}
    </Stack>
  )
}

/** Members whose names are free: labels, headers, metadata. */
function Rows({ path, names, fields, schema }: { path: Path; names: string[]; fields: Record<string, unknown>; schema: Schema }) {
  const words = useWords()
  const { set, rename } = useForm()
  const [name, setName] = useState('')
  const isTaken = name in fields
  const add = () => {
    set([...path, name], startOf(schema))
    setName('')
  }
  return (
    <Stack gap="xs">
      {drawn(names).map((own, at) => (
        <Group key={at} gap="xs" align="start" wrap="nowrap">
          <NameField name={own} rename={(next) => rename([...path, own], next)} isTaken={(next) => next in fields} />
          <div className="grow"><Field path={[...path, own]} schema={{ ...schema, description: undefined }} value={fields[own]} label={own} canRemove isBare /></div>
        </Group>
      ))}
      <More rows={names} />
      <Group gap="xs" align="end">
        <TextInput size="xs" aria-label={words.newNameIn(String(path.at(-1) ?? ''))} placeholder={words.name} value={name} autoComplete="off" onChange={(event) => setName(event.currentTarget.value)} onKeyDown={(event) => event.key === 'Enter' && name !== '' && !isTaken && add()} />
        <Button size="xs" variant="default" disabled={name === '' || isTaken} onClick={add}>{words.add}</Button>
      </Group>
    </Stack>
  )
}

/** The name of a member; it changes when the field is left, since half a name may be another's. */
function NameField({ name, rename, isTaken }: { name: string; rename: (name: string) => void; isTaken: (name: string) => boolean }) {
  const words = useWords()
  const [draft, setDraft] = useState<string>()
  const leave = () => {
    if (draft !== undefined && draft !== name && !isTaken(draft)) rename(draft)
    setDraft(undefined)
  }
  return (
    <TextInput
      className="name" aria-label={`${words.name} ${name}`} value={draft ?? name} autoComplete="off"
      onChange={(event) => setDraft(event.currentTarget.value)} onBlur={leave}
      onKeyDown={(event) => event.key === 'Enter' && leave()}
    />
  )
}
