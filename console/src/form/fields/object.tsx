/** The members of an object: in the order of its layer, then those of its schema, then those that nobody knows. */
import { Button, Group, Stack, Text, TextInput } from '@mantine/core'
import { useState } from 'react'
import type { Path } from '../../lib/pointer'
import { isBlank } from '../../lib/record'
import { useWords } from '../../words/words'
import { arrange, type Drawn, type DrawnField, type DrawnSection, fieldsOf, isChoice } from '../arrange'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { Field, MemberField } from '../field'
import type { Layer } from '../layers/layer'
import { isRecord, type Plan, type Schema, startOf } from '../plan'
import { TEXTS, useSay } from '../texts'
import { Fold } from './fold'
import { OneOf } from './one-of'

type ObjectPlan = Extract<Plan, { kind: 'object' }>

interface Props { path: Path; plan: ObjectPlan; value: unknown; layer: Layer | undefined; isRow?: boolean }

/** The members of an object inside of another one. */
export function ObjectFields({ path, plan, value, layer, isRow }: Props) {
  const say = useSay()
  const fields = isRecord(value) ? value : {}
  const { sections, rest, unknown } = arrange(plan, layer, value)
  return (
    <div className="fields">
      {sections.map((section, at) => {
        const items = <Items items={section.items} path={path} fields={fields} />
        const names = section.items.flatMap(fieldsOf).map((it) => it.member.name)
        return section.isFolded
          ? <Fold key={at} title={say(section.title)} field={path} members={names} isOpenFirst={names.some((name) => !isBlank(fields[name]))} count={setCount(names, fields, say(TEXTS.isSet))}><div className="fields">{items}</div></Fold>
          : <div key={at} className={isRow || section.isRow ? 'fields cells' : 'fields'}>{say(section.title) !== '' && <Text fw={600} size="sm">{say(section.title)}</Text>}{items}</div>
      })}
      {plan.rest !== undefined && <Rows path={path} names={Object.keys(fields).filter((name) => !plan.members.some((it) => it.name === name))} fields={fields} schema={plan.rest} />}
      <Rest path={path} rest={rest} unknown={unknown} fields={fields} title={sections.length === 0 ? '' : say(TEXTS.allSettings)} />
    </div>
  )
}

/** The members of a whole document, each section under its own heading. */
export function DocumentFields({ path, plan, value, layer }: Props) {
  const say = useSay()
  const fields = isRecord(value) ? value : {}
  const { sections, rest, unknown } = arrange(plan, layer, value)
  const hasRest = rest.length + unknown.length > 0 || plan.rest !== undefined
  const everythingElse = (
    <>
      {plan.rest !== undefined && <Rows path={path} names={Object.keys(fields).filter((name) => !plan.members.some((it) => it.name === name))} fields={fields} schema={plan.rest} />}
      <Rest path={path} rest={rest} unknown={unknown} fields={fields} title="" />
    </>
  )
  return (
    <div className="sections">
      {sections.map((section, at) => <TopSection key={at} section={section} path={path} fields={fields} />)}
      {sections.length === 0 ? everythingElse : hasRest && (
        <Fold isSection title={say(TEXTS.advanced)} note={say(TEXTS.advancedNote)} field={path} members={[...rest.map((it) => it.member.name), ...unknown]} isOpenFirst={unknown.length > 0 || plan.rest !== undefined} count={setCount(rest.map((it) => it.member.name), fields, say(TEXTS.isSet))}>
          {everythingElse}
        </Fold>
      )}
    </div>
  )
}

function TopSection({ section, path, fields }: { section: DrawnSection; path: Path; fields: Record<string, unknown> }) {
  const say = useSay()
  const names = section.items.flatMap(fieldsOf).map((it) => it.member.name)
  const items = <Items items={section.items} path={path} fields={fields} />
  const title = say(section.title)
  if (section.isFolded) {
    return <Fold isSection title={title} note={section.note && say(section.note)} field={path} members={names} isOpenFirst={names.some((name) => !isBlank(fields[name]))} count={setCount(names, fields, say(TEXTS.isSet))}><div className="fields">{items}</div></Fold>
  }
  return (
    <section className="section" aria-label={title || undefined}>
      {title !== '' && <div className="section-head"><h2>{title}</h2>{section.note && <p>{say(section.note)}</p>}</div>}
      <div className="section-body"><div className="fields">{items}</div></div>
    </section>
  )
}

const setCount = (names: string[], fields: Record<string, unknown>, word: string) => {
  const count = names.filter((name) => !isBlank(fields[name])).length
  return count === 0 ? undefined : `${count} ${word}`
}

function Items({ items, path, fields }: { items: Drawn[]; path: Path; fields: Record<string, unknown> }) {
  return items.map((item) => {
    const key = fieldsOf(item)[0]?.member.name
    return isChoice(item)
      ? <OneOf key={key} title={item.choice} sides={item.sides} path={path} fields={fields} />
      : <One key={key} drawn={item} path={path} fields={fields} />
  })
}

/** A member with its title. */
export function One({ drawn: { member, look, isNeeded }, path, fields }: { drawn: DrawnField; path: Path; fields: Record<string, unknown> }) {
  return (
    <MemberField
      name={member.name} path={[...path, member.name]} schema={member.schema} look={look} value={fields[member.name]}
      isRequired={isNeeded ?? member.isRequired} isSecret={member.isSecret} canRemove={!member.isRequired}
    />
  )
}

/** What no section has, and what the schema does not know: folded as long as nothing of it is set. */
function Rest({ path, rest, unknown, fields, title }: { path: Path; rest: DrawnField[]; unknown: string[]; fields: Record<string, unknown>; title: string }) {
  const words = useWords()
  const say = useSay()
  if (rest.length === 0 && unknown.length === 0) return null
  const names = [...rest.map((it) => it.member.name), ...unknown]
  const inner = (
    <div className="fields">
      {unknown.map((name) => <Field key={name} path={[...path, name]} schema={{ description: words.notInSchema }} value={fields[name]} label={name} canRemove />)}
      {rest.map((one) => <One key={one.member.name} drawn={one} path={path} fields={fields} />)}
    </div>
  )
  if (title === '') return inner
  return <Fold title={title} field={path} members={names} isOpenFirst={unknown.length > 0} count={setCount(names, fields, say(TEXTS.isSet))}>{inner}</Fold>
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
