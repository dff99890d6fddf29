/** Fields that name a service or a namespace of the registry. */
import { useDebouncedValue } from '@mantine/hooks'
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { json, query } from '../../api/client'
import type { Counted } from '../../api/types'
import { setAt, textAt } from '../../lib/pointer'
import { useWords } from '../../words/words'
import { useFault, useForm } from '../context'
import { type FieldProps, Help } from '../field'
import type { RegistryTarget } from '../layers/layer'
import { TEXTS, useSay } from '../texts'
import { type Option, Picker } from './picker'
import { Frame } from './scalars'

/** Options that are offered; a longer list is searched. */
const OPTIONS = 30

/** What is typed rests so long before it is searched, in milliseconds. */
const REST_MS = 150

interface Row { name: string; namespace?: string; instances?: Counted }

/** A name of the registry; a service that is picked brings its namespace along where none is written yet. */
export function RegistryReference({ target, ...props }: FieldProps & { target: RegistryTarget }) {
  const { path, label, schema, look, value, isRequired, canRemove, isBare } = props
  const words = useWords()
  const say = useSay()
  const { text, set, remove, change } = useForm()
  const fault = useFault(path)
  const [typed, search] = useState('')
  const [rested] = useDebouncedValue(typed === '*' ? '' : typed, REST_MS)
  const own = value === undefined || value === null ? '' : String(value)
  const isService = target === 'registry-service'
  const beside = [...path.slice(0, -1), 'namespace']
  const written = isService ? textAt(text, beside) : undefined
  const namespace = written?.startsWith('"') ? (JSON.parse(written) as string) : ''
  const within = namespace === '*' ? '' : namespace
  const { data } = useQuery({
    queryKey: ['options', target, within, rested], staleTime: 5000, placeholderData: keepPreviousData,
    queryFn: ({ signal }) => json<{ list: Row[] }>(`/registry/v1/${isService ? 'services' : 'namespaces'}${query({ q: rested || undefined, namespace: isService ? within || undefined : undefined, page_size: OPTIONS })}`, { signal }).then((it) => it.list, () => []),
  })
  // Services of several namespaces may have one name: they are told apart as long as the namespace is open.
  const isOpen = isService && within === '' && namespace !== '*'
  const options: Option[] = [
    ...(look?.all && (typed === '' || own === '*') ? [{ value: '*', title: say(look.all), note: '*' }] : []),
    ...(data ?? []).map((row) => ({ value: isOpen ? `${row.namespace}/${row.name}` : row.name, title: row.name, note: [row.namespace, isService && row.instances && words.naming.summary(row.instances)].filter(Boolean).join(' · ') })),
  ]
  const pick = (next: string) => {
    const row = isOpen ? data?.find((one) => `${one.namespace}/${one.name}` === next) : undefined
    if (row) change((all) => setAt(setAt(all, path, JSON.stringify(row.name)), beside, JSON.stringify(row.namespace)), path)
    else if (next !== own) set(path, JSON.stringify(next))
  }
  return (
    <Frame path={path} isRequired={isRequired} isBare={isBare}>
      <Picker
        label={label} isBare={isBare} value={own} options={options} search={search} error={fault} description={<Help schema={schema} look={look} />} placeholder={look?.placeholder}
        pick={pick} clear={canRemove ? () => remove(path) : undefined}
        foot={<a href={isService ? '/ui/registry' : '/ui/registry?tab=namespaces'} target="_blank" rel="noreferrer">{say(isService ? TEXTS.allServices : TEXTS.allNamespaces)} <span className="unseen">{say(TEXTS.newTab)}</span></a>}
      />
    </Frame>
  )
}
