/** A pair of a plugin's name and its conf, as a workflow has them. */
import { NativeSelect, Stack } from '@mantine/core'
import type { Path } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { useForm } from '../context'
import { Field } from '../field'
import type { Schema } from '../plan'
import { PLUGIN_LAYERS } from '../layers/plugins/all'
import { usePluginFacts } from './plugin-facts'

/** Actions that are taken: an answer, or what one of these plugins does. */
const ACTIONS = ['return', 'limit-count', 'limit-conn']

const RETURN: Schema = { type: 'object', properties: { code: { type: 'integer' } }, required: ['code'] }

/** What is done: the name of it, and how, by the form of the plugin that does it. */
export function Action({ path, value }: { path: Path; value: unknown }) {
  const words = useWords()
  const { set } = useForm()
  const { data } = usePluginFacts()
  const [name = '', conf] = Array.isArray(value) ? (value as [string?, unknown?]) : []
  const schema = name === 'return' ? RETURN : { ...data?.[name]?.schema, type: 'object' }
  const names = [...new Set([...ACTIONS.filter((action) => action === 'return' || data?.[action]), name])].filter((one) => one !== '')
  return (
    <Stack gap="xs">
      <NativeSelect
        maw={280} aria-label={words.actionOf(String(path.at(-1) ?? ''))} value={name} data={names}
        onChange={(event) => set(path, JSON.stringify([event.currentTarget.value, event.currentTarget.value === 'return' ? { code: 403 } : (PLUGIN_LAYERS[event.currentTarget.value]?.start ?? {})]))}
      />
      <Field path={[...path, 1]} schema={schema} value={conf} label={name} look={{ layer: PLUGIN_LAYERS[name]?.layer }} isBare />
    </Stack>
  )
}
