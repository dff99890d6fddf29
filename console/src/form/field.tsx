/** Which field edits a value: chosen by its plan, drawn by a file below `fields`. */
import { Button, Group, Stack, Text } from '@mantine/core'
import type { ReactNode } from 'react'
import type { Path } from '../lib/pointer'
import { useWords } from '../words/words'
import { useFault, useForm } from './context'
import { Action } from './fields/action'
import { Conditions } from './fields/conditions'
import { Either } from './fields/either'
import { ItemList } from './fields/list'
import { Nodes } from './fields/nodes'
import { ObjectFields } from './fields/object'
import { Plugins } from './fields/plugins'
import { Raw } from './fields/raw'
import { Choice, Flags, NumberField, Switch, TextField } from './fields/scalars'
import { planOf, type Schema } from './plan'

export interface FieldProps {
  path: Path
  schema: Schema
  /** What is there; undefined where nothing is. */
  value: unknown
  label: string
  isRequired?: boolean
  isSecret?: boolean
  /** Whether the button that takes the field away is shown; it is where the field is not required. */
  canRemove?: boolean
  /** Whether the name is for readers of the screen only: it stands beside the field already. */
  isBare?: boolean
}

/** The field for a value: what its schema and the value ask for. */
export function Field(props: FieldProps) {
  const { schema, value, path } = props
  const last = path.at(-1)
  const plan = planOf(schema, value, typeof last === 'string' ? last : '')
  switch (plan.kind) {
    case 'text': return <TextField {...props} isLong={plan.isLong} />
    case 'number': return <NumberField {...props} takesText={false} />
    case 'amount': return <NumberField {...props} takesText />
    case 'switch': return <Switch {...props} />
    case 'choice': return <Choice {...props} choices={plan.choices} />
    case 'flags': return <Flags {...props} choices={plan.choices} />
    case 'either': return <Either {...props} plan={plan} />
    case 'raw': return <Raw {...props} />
    case 'object': return <Part {...props}><ObjectFields path={path} plan={plan} value={value} /></Part>
    case 'list': return <Part {...props}><ItemList path={path} item={plan.item} value={value} label={props.label} /></Part>
    case 'plugins': return <Part {...props}><Plugins path={path} value={value} /></Part>
    case 'nodes': return <Part {...props}><Nodes path={path} value={value} /></Part>
    case 'action': return <Part {...props}><Action path={path} value={value} /></Part>
    case 'conditions': return <Part {...props}><Conditions path={path} value={value} /></Part>
  }
}

/** What has fields inside: a name, what it is for, and a frame. */
export function Part({ path, label, schema, value, canRemove, isRequired, children }: FieldProps & { children: ReactNode }) {
  const fault = useFault(path)
  return (
    <fieldset className="part">
      <legend><Group gap="xs"><span className="mono">{label}</span>{isRequired && <span aria-hidden className="required">*</span>}</Group></legend>
      <Stack gap="xs">
        <Group justify="space-between" gap="xs" wrap="nowrap" align="start">
          <Text size="xs" c="dimmed" lang="en">{schema.description}</Text>
          {canRemove && value !== undefined && <RemoveButton path={path} label={label} />}
        </Group>
        {fault && <Text size="sm" c="red" role="alert">{fault}</Text>}
        {children}
      </Stack>
    </fieldset>
  )
}

export function RemoveButton({ path, label }: { path: Path; label: string }) {
  const words = useWords()
  const { remove } = useForm()
  return (
    <Button size="compact-xs" variant="subtle" color="gray" aria-label={words.removeField(label)} onClick={() => remove(path)}>✕</Button>
  )
}
