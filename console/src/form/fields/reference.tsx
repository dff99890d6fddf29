/** Fields that name another object: it is searched for, and may be made on the way. */
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { json, query } from '../../api/client'
import { isKind, type ObjectRow } from '../../api/types'
import { useWords } from '../../words/words'
import { useFault, useForm } from '../context'
import { type FieldProps, Help } from '../field'
import type { RegistryTarget, Target } from '../layers/layer'
import { TEXTS, useSay } from '../texts'
import { type Option, Picker } from './picker'
import { Frame } from './scalars'

/** Options that are offered; a longer list is searched. */
const OPTIONS = 30

/** What is typed rests so long before it is searched, in milliseconds. */
const REST_MS = 150

/** Rows of ShenYu's objects, as far as a picker shows them. */
interface ShenyuRow { id: string; name?: string; role?: string; pluginName?: string }

/** What a reference of the gateway names; names of the registry have a field of their own. */
type Referenced = Exclude<Target, RegistryTarget>

/** What is offered for a text. */
async function optionsOf(target: Referenced, text: string, signal: AbortSignal): Promise<Option[]> {
  if (isKind(target)) {
    const { rows } = await json<{ rows: ObjectRow[] }>(`/console/v1/objects/${target}${query({ q: text || undefined, page_size: OPTIONS })}`, { signal })
    return rows.map((row) => ({ value: row.id, title: row.name && row.name !== row.id ? `${row.name} · ${row.id}` : row.id, note: noteOf(row) }))
  }
  const kind = target === 'shenyu-plugin' ? 'plugin' : 'selector'
  const asked = query({ name: text || undefined, currentPage: 1, pageSize: kind === 'plugin' ? 200 : OPTIONS })
  const { data } = await json<{ data: { dataList: ShenyuRow[] } }>(`/console/v1/shenyu/${kind}${asked}`, { signal })
  return data.dataList.map((row) => ({ value: row.id, title: row.name ?? row.id, note: kind === 'plugin' ? row.role : row.pluginName }))
}

const noteOf = (row: ObjectRow): string =>
  [row.desc, (row.hosts ?? (row.host ? [row.host] : [])).join(', '), (row.snis ?? (row.sni ? [row.sni] : [])).join(', '), row.plugins?.join(', '), row.service_name].filter(Boolean).join(' · ')

/** A reference: a text or a number, as it was written. */
export function Reference({ target, ...props }: FieldProps & { target: Referenced }) {
  const { path, label, schema, look, value, isRequired, canRemove, isBare } = props
  const words = useWords()
  const say = useSay()
  const { set, remove } = useForm()
  const fault = useFault(path)
  const [text, search] = useState('')
  const [rested] = useDebouncedValue(text, REST_MS)
  const own = value === undefined || value === null ? '' : String(value)
  const found = useQuery({ queryKey: ['options', target, rested], staleTime: 5000, placeholderData: keepPreviousData, queryFn: ({ signal }) => optionsOf(target, rested, signal) })
  const options = found.data ?? []
  return (
    <Frame path={path} isRequired={isRequired} isBare={isBare}>
      <Picker
        label={label} isBare={isBare} value={own} options={options} search={search} error={fault} description={<Help schema={schema} look={look} />}
        pick={(next) => next !== own && set(path, JSON.stringify(next))} clear={canRemove ? () => remove(path) : undefined}
        foot={isKind(target) && <a href={`/ui/new/${target}`} target="_blank" rel="noreferrer">+ {say(TEXTS.createNew)}: {words[target]} <span className="unseen">{say(TEXTS.newTab)}</span></a>}
      />
    </Frame>
  )
}
