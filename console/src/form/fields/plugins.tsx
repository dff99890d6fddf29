/** Plugins of an object with their confs. Which there are is asked of the gateway. */
import { Group, NativeSelect, Stack, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { json } from '../../api/client'
import type { Path } from '../../lib/pointer'
import { Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { useForm } from '../context'
import { Field } from '../field'
import { isRecord, type Schema } from '../plan'

/** What a plugin is, as the gateway says it. */
interface PluginFacts { schema: Schema; consumer_schema?: Schema; priority: number }

/** All plugins with their schemas; they change with the program only. */
export const usePluginFacts = () =>
  useQuery({
    // Not the key of the catalogue, which has another shape.
    queryKey: ['plugin schemas'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<Record<string, PluginFacts>>('/apisix/admin/plugins?all=true', { signal }),
  })

/** The plugins of an object, each with a form of its own. */
export function Plugins({ path, value }: { path: Path; value: unknown }) {
  const words = useWords()
  const { set, isIdentity } = useForm()
  const { data, isError } = usePluginFacts()
  const confs = isRecord(value) ? value : {}
  const known = data ?? {}
  const names = Object.keys(known).filter((name) => !(name in confs)).sort()
  // A consumer's plugins are mostly those that say who it is; they come first.
  const ordered = isIdentity ? [...names.filter((name) => known[name]?.consumer_schema), ...names.filter((name) => !known[name]?.consumer_schema)] : names
  // What is not known yet is not shown as if there were no form for it.
  if (data === undefined && !isError) return <Loading rows={2} />
  return (
    <Stack gap="sm">
      {Object.keys(confs).map((name) => {
        const facts = known[name]
        const own = facts && ((isIdentity && facts.consumer_schema) || facts.schema)
        const schema: Schema = own ? { ...own, type: 'object', properties: withCommon(own), description: words.runsAt(facts.priority) } : { description: data ? words.notServed : undefined }
        return <Field key={name} path={[...path, name]} schema={schema} value={confs[name]} label={name} canRemove />
      })}
      <Group gap="xs">
        <NativeSelect
          size="xs" maw={280} aria-label={words.addPlugin} value="" data={[{ value: '', label: words.addPlugin }, ...ordered]}
          onChange={(event) => event.currentTarget.value !== '' && set([...path, event.currentTarget.value], '{}')}
        />
        <Text size="xs" c="dimmed">{words.pluginHelp}</Text>
      </Group>
    </Stack>
  )
}

/** The fields of a conf, and after them what every conf may say. */
function withCommon(schema: Schema): Record<string, Schema> {
  const { _meta: common, ...own } = schema.properties ?? {}
  return common === undefined ? own : { ...own, _meta: common }
}
