/** The items of a list, one field each. */
import { Button } from '@mantine/core'
import type { Path } from '../../lib/pointer'
import { isBlank } from '../../lib/record'
import { useWords } from '../../words/words'
import { arrange, fieldsOf } from '../arrange'
import { drawn, More } from '../bound'
import { useForm } from '../context'
import { Field, MemberField, RemoveButton } from '../field'
import type { Look } from '../layers/layer'
import { isRecord, planOf, type Schema, startOf } from '../plan'
import { TEXTS, useSay } from '../texts'
import { Fold } from './fold'

interface Props { path: Path; item: Schema; value: unknown; label: string; look: Look | undefined }

/** Items of one kind, in their order. An empty list of texts shows a field to type the first one into. */
export function ItemList({ path, item, value, label, look }: Props) {
  const words = useWords()
  const { set } = useForm()
  const items = Array.isArray(value) ? (value as unknown[]) : []
  const isTexts = planOf(item, undefined).kind === 'text' || item.anyOf?.every((it) => it.type === 'string') === true
  const begun = beginOf(item)
  const add = () => (value === undefined ? set(path, `[${begun}]`) : set([...path, items.length], begun))
  // What an item is stands over the list; beside each it would only repeat.
  const own = { ...item, description: undefined }
  const isDraft = isTexts && items.length === 0
  return (
    <div className="items">
      {drawn(isDraft ? [undefined] : items).map((one, at) => (
        look?.isRow && (isRecord(one) || one === undefined)
          ? <Row key={at} path={[...path, at]} item={item} value={one} label={`${label} ${at + 1}`} look={look} />
          : isRecord(one)
            ? <div key={at} className="item"><div className="item-head"><span>{at + 1}</span><RemoveButton path={[...path, at]} label={`${label} ${at + 1}`} /></div><Field path={[...path, at]} schema={own} value={one} label={`${label} ${at + 1}`} look={look?.layer && { layer: look.layer }} isBare /></div>
            : <Field key={at} path={[...path, at]} schema={own} value={one} label={`${label} ${at + 1}`} look={look && { as: look.as, placeholder: look.placeholder }} canRemove isBare />
      ))}
      <More rows={items} />
      {!isDraft && <Button size="xs" variant="default" onClick={add} aria-label={words.addTo(label)} className="start">+ {words.add}</Button>}
    </div>
  )
}

/** What an added item begins with: an object has what is required of an enum, so that its row says what it means. */
function beginOf(item: Schema): string {
  const begun = startOf(item)
  if (begun !== '{}' || !item.properties) return begun
  const chosen = (item.required ?? []).flatMap((name) => (item.properties?.[name]?.enum ? [[name, item.properties[name].enum[0]] as const] : []))
  return JSON.stringify(Object.fromEntries(chosen))
}

/** An item whose fields stand beside each other; those that are rarely needed are folded below. */
function Row({ path, item, value, label, look }: { path: Path; item: Schema; value: unknown; label: string; look: Look }) {
  const say = useSay()
  const fields = isRecord(value) ? value : {}
  const plan = planOf(item, value)
  if (plan.kind !== 'object') return null
  const { sections, rest } = arrange(plan, look.layer, value)
  const set = rest.filter((one) => !isBlank(fields[one.member.name]))
  const first = sections.flatMap((section) => section.items.flatMap(fieldsOf))
  return (
    <div className="item row" role="group" aria-label={label}>
      <div className="with-end"><div className="cells">
        {first.map(({ member, look: own }) => (
          <div key={member.name} className={member.schema.type === 'boolean' ? 'cell narrow' : 'cell'}>
            <MemberField name={member.name} path={[...path, member.name]} schema={{ ...member.schema, description: undefined }} look={own} value={fields[member.name]} isRequired={member.isRequired} isSecret={member.isSecret} />
          </div>
        ))}
      </div><RemoveButton path={path} label={label} /></div>
      {rest.length > 0 && (
        <Fold title={say(TEXTS.allSettings)} field={path} members={rest.map((one) => one.member.name)} isOpenFirst={set.length > 0}>
          <div className="cells">{rest.map(({ member, look: own }) => <div key={member.name} className="cell"><MemberField name={member.name} path={[...path, member.name]} schema={member.schema} look={own} value={fields[member.name]} isSecret={member.isSecret} canRemove /></div>)}</div>
        </Fold>
      )}
    </div>
  )
}
