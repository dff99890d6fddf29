/** What a new object is called, and what it is of. Objects that are there keep their names. */
import { Group, NativeSelect, TextInput } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { json } from '../../api/client'
import type { Kind, PluginRow } from '../../api/types'
import { TEXTS, useSay } from '../../form/texts'
import { useWords } from '../../words/words'
import { KEEPERS, KIND_FACTS } from './kinds'

interface Props { kind: Kind; scope: string; id: string; setId: (id: string) => void; isChanged: boolean }

/** What a new object is called, and what it is of where that comes first. */
export function Identity({ kind, scope, id, setId, isChanged }: Props) {
  const words = useWords()
  const say = useSay()
  const { by } = KIND_FACTS[kind].naming
  if (by === 'field') return null
  return (
    <Group align="flex-end" gap="sm">
      {by === 'keeper' && <Scope label={words.keeper} choices={KEEPERS} chosen={scope} isChanged={isChanged} />}
      {by === 'plugin' ? <MetadataOf chosen={scope} isChanged={isChanged} /> : (
        <TextInput label={words.newId} description={by === 'anybody' ? say(TEXTS.idHelp) : undefined} value={id} maw={420} className="grow" withAsterisk={by !== 'anybody'} placeholder={by === 'keeper' ? '1' : 'orders-v1'} autoComplete="off" spellCheck={false} onChange={(event) => setId(event.currentTarget.value)} />
      )}
    </Group>
  )
}

function MetadataOf({ chosen, isChanged }: { chosen: string; isChanged: boolean }) {
  const words = useWords()
  const { data } = useQuery({ queryKey: ['plugins'], staleTime: 30_000, queryFn: ({ signal }) => json<{ rows: PluginRow[] }>('/console/v1/plugins', { signal }) })
  const names = (data?.rows ?? []).filter((row) => row.has_metadata).map((row) => row.name).sort()
  return <Scope label={words.plugin} choices={[...new Set(['', chosen, ...names])]} chosen={chosen} isChanged={isChanged} />
}

/** Another choice is another form, for which nothing was typed yet. */
function Scope({ label, choices, chosen, isChanged }: { label: string; choices: string[]; chosen: string; isChanged: boolean }) {
  const words = useWords()
  const navigate = useNavigate()
  const choose = (of: string) => {
    if (isChanged && !confirm(words.unsaved)) return
    void navigate({ to: '.', search: ((before: object) => ({ ...before, of: of || undefined })) as never, replace: true, resetScroll: false })
  }
  return <NativeSelect label={label} withAsterisk data={choices} value={chosen} onChange={(event) => choose(event.currentTarget.value)} />
}
