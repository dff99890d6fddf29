/** Form and text of an object, with what the gateway says about it while it is edited. */
import { useDebouncedValue } from '@mantine/hooks'
import { type ReactNode, useState } from 'react'
import type { Kind } from '../../api/types'
import type { useDocument } from '../../form/document'
import { layerOf } from '../../form/layers/kinds'
import { DocumentViews, type EditorView } from '../../form/views'
import { fault } from '../../lib/json-text'
import { Empty, ErrorBox, Loading } from '../../ui/states'
import { useWords } from '../../words/words'
import { KIND_FACTS } from './kinds'
import { useSchema, useVerdict } from './schemas'

/** After the last edit the gateway is asked what it thinks, in milliseconds. */
const REST_MS = 400

interface Props {
  kind: Kind
  /** Its id, as far as it is known: of a new one perhaps what it is of. */
  id: string | undefined
  /** Secrets as they are sealed. */
  sealed: string[]
  document: ReturnType<typeof useDocument>
  view: EditorView
  choose: (view: EditorView) => void
  /** Whether the text differs from what was opened; what was not touched is not judged. */
  isChanged: boolean
  /** How often it was tried to save. */
  attempts: number
  actions: ReactNode
  extra?: ReactNode
}

/** The two views of an object, and what the gateway says about it. */
export function Views({ kind, id, sealed, document, view, choose, isChanged, attempts, actions, extra }: Props) {
  const words = useWords()
  const { text } = document
  const isReadable = fault(text) === undefined
  const [readable, setReadable] = useState(text)
  if (isReadable && readable !== text) setReadable(text)
  const [rested] = useDebouncedValue(readable, REST_MS)
  const isOpen = KIND_FACTS[kind].schema(id ?? '') === undefined
  const verdict = useVerdict(kind, id, rested, isChanged && isReadable && !isOpen)
  const schema = useSchema(kind, id ?? '')
  return (
    <DocumentViews
      schema={schema.data} layer={layerOf(kind, id ?? '')} document={document} view={view} choose={choose} sealed={sealed} isIdentity={kind === 'consumers'}
      place={id === undefined ? undefined : `${kind}/${id}`} attempts={attempts} actions={actions} extra={extra}
      problems={isChanged ? (verdict.data?.problems ?? []) : []}
      isTaken={isChanged && verdict.data?.valid === true}
      instead={isOpen ? <Empty>{words.choosePlugin}</Empty> : schema.isError ? <ErrorBox error={schema.error} retry={() => void schema.refetch()} /> : schema.data === undefined ? <Loading /> : undefined}
    />
  )
}
