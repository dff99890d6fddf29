/** Which field edits a value: chosen by its plan and its layer, drawn by a file below `fields`. */
import { Button, Text } from '@mantine/core'
import { type ReactNode, useId } from 'react'
import { type Path, pointerOf } from '../lib/pointer'
import { useWords } from '../words/words'
import { useFault, useForm } from './context'
import { Action } from './fields/action'
import { CallConditions, ComparisonField, LabelConditions } from './fields/comparisons'
import { Conditions } from './fields/conditions'
import { Duration, isDuration } from './fields/duration'
import { Either } from './fields/either'
import { Fold } from './fields/fold'
import { ItemList } from './fields/list'
import { LongText } from './fields/long-text'
import { Nodes } from './fields/nodes'
import { ObjectFields } from './fields/object'
import { Plugins } from './fields/plugins'
import { Raw } from './fields/raw'
import { Reference } from './fields/reference'
import { RegistryReference } from './fields/registry-reference'
import { Choice, Flags, NumberField, OnOff, Switch, TextField } from './fields/scalars'
import type { Look } from './layers/layer'
import { isRecord, planOf, type Schema } from './plan'
import { TEXTS, useSay } from './texts'
import { titleOf } from './titles'

export interface FieldProps {
  path: Path
  schema: Schema
  /** What is there; undefined where nothing is. */
  value: unknown
  /** Its title, as people read it. */
  label: string
  look?: Look
  isRequired?: boolean
  isSecret?: boolean
  /** Whether the button that takes the field away is shown; it is where the field is not required. */
  canRemove?: boolean
  /** Whether the title is for readers of the screen only: it stands beside the field already. */
  isBare?: boolean
}

/** A member of an object: its title and help come from its layer, or from its schema. */
export function MemberField({ name, ...props }: Omit<FieldProps, 'label'> & { name: string }) {
  const say = useSay()
  // What the registry writes as null is not set.
  return <Field {...props} value={props.value ?? undefined} label={say(titleOf(name, props.look))} />
}

/** The field for a value: what its layer, its schema and the value ask for. */
export function Field(props: FieldProps) {
  const { schema, value, path, look } = props
  const last = path.at(-1)
  const plan = planOf(schema, value, typeof last === 'string' ? last : '')
  const isText = plan.kind === 'text' || (plan.kind === 'either' && plan.variants.every((it) => it.type === 'string'))
  if (look?.of && (isText || plan.kind === 'amount')) return look.of === 'registry-service' || look.of === 'registry-namespace' ? <RegistryReference {...props} target={look.of} /> : <Reference {...props} target={look.of} />
  if (isText && look?.as === 'duration') return isDuration(value) ? <Duration {...props} /> : <TextField {...props} isLong={false} />
  if (isText && look?.as !== undefined && (typeof value === 'string' || value === undefined)) return <LongText {...props} />
  if (look?.as === 'onOff' && (value === 0 || value === 1 || value === undefined)) return <OnOff {...props} />
  if (look?.choices && (isText || plan.kind === 'amount') && (typeof value === 'string' || value === undefined)) return <Choice {...props} choices={Object.keys(look.choices)} isOpen />
  switch (plan.kind) {
    case 'text': return <TextField {...props} isLong={plan.isLong} />
    case 'number': return <NumberField {...props} takesText={false} />
    case 'amount': return <NumberField {...props} takesText />
    case 'switch': return <Switch {...props} />
    case 'choice': return <Choice {...props} choices={plan.choices} />
    case 'flags': return <Flags {...props} choices={plan.choices} />
    case 'either': return <Either {...props} plan={plan} />
    case 'raw': return <Raw {...props} />
    case 'object': {
      if (look?.as === 'comparison') return <TitledGroup {...props}><ComparisonField path={path} value={value} label={props.label} /></TitledGroup>
      if (look?.as === 'labelConditions' && (value === undefined || (isRecord(value) && Object.values(value).every(isRecord)))) return <TitledGroup {...props}><LabelConditions path={path} value={value} label={props.label} /></TitledGroup>
      const inner = <ObjectFields path={path} plan={plan} value={value} layer={look?.layer} isRow={look?.isRow} />
      return look?.inline === 'titled' ? <TitledGroup {...props}>{inner}</TitledGroup> : <Part {...props} isBare={props.isBare || look?.inline === 'bare'}>{inner}</Part>
    }
    case 'list': return look?.as === 'callConditions' ? <TitledGroup {...props}><CallConditions path={path} item={plan.item} value={value} /></TitledGroup> : <TitledGroup {...props}><ItemList path={path} item={plan.item} value={value} label={props.label} look={look} /></TitledGroup>
    case 'plugins': return <Plugins path={path} value={value} />
    case 'nodes': return <TitledGroup {...props}><Nodes path={path} value={value} /></TitledGroup>
    case 'action': return <TitledGroup {...props}><Action path={path} value={value} /></TitledGroup>
    case 'conditions': return <TitledGroup {...props}><Conditions path={path} value={value} /></TitledGroup>
  }
}

/** The name of a field in the document, shown to those who know the API. */
export function FieldKey({ path }: { path: Path }) {
  const name = path.at(-1)
  return typeof name === 'string' ? <code className="field-key" aria-hidden title={pointerOf(path)}>{name}</code> : null
}

/** Help of a field: its layer's, or the schema's, which is English. */
export function Help({ schema, look }: Pick<FieldProps, 'schema' | 'look'>) {
  const say = useSay()
  if (look?.help) return <>{say(look.help)}</>
  return schema.description && !look?.title ? <span lang="en">{schema.description}</span> : null
}

/** Fields inside of an object, folded as long as nothing is set. */
export function Part({ path, label, schema, look, value, canRemove, isRequired, isBare, children }: FieldProps & { children: ReactNode }) {
  const fault = useFault(path)
  if (isBare) return <div className="part-bare" role="group" aria-label={label}>{fault && <Text size="sm" className="field-error">{fault}</Text>}{children}</div>
  return (
    <Fold
      title={label} field={path} isOpenFirst={value !== undefined || isRequired === true} name={<FieldKey path={path} />}
      after={canRemove && value !== undefined ? <RemoveButton path={path} label={label} isNamed /> : undefined}
    >
      <p className="flip-help"><Help schema={schema} look={look} /></p>
      {fault && <Text size="sm" className="field-error">{fault}</Text>}
      {children}
    </Fold>
  )
}

/** Several inputs under one title. */
function TitledGroup({ path, label, schema, look, value, canRemove, isRequired, isBare, children }: FieldProps & { children: ReactNode }) {
  const say = useSay()
  const fault = useFault(path)
  const id = useId()
  return (
    <div className={isRequired ? 'field required group' : 'field group'} role="group" {...(isBare ? { 'aria-label': label } : { 'aria-labelledby': id })}>
      {!isBare && (
        <>
          <div className="group-title"><span id={id}>{label}</span>{canRemove && value !== undefined && <RemoveButton path={path} label={label} />}</div>
          <FieldKey path={path} />
          <p className="flip-help">
            <Help schema={schema} look={look} />
            {value === undefined && Array.isArray(schema.default) && schema.default.length > 0 && <> {say(TEXTS.byDefault)}: <span className="mono">{schema.default.join(', ')}</span></>}
          </p>
        </>
      )}
      {children}
      {fault && <p className="field-error">{fault}</p>}
    </div>
  )
}

export function RemoveButton({ path, label, isNamed = false }: { path: Path; label: string; isNamed?: boolean }) {
  const words = useWords()
  const { remove } = useForm()
  return (
    <Button size="compact-xs" variant="subtle" color="gray" aria-label={words.removeField(label)} title={words.removeField(label)} onClick={() => remove(path)}>{isNamed ? words.removeField(label) : '✕'}</Button>
  )
}
