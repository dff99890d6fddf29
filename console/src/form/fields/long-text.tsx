/** Texts of several lines: PEM, protos, scripts. A file may be dropped on them. */
import { Textarea } from '@mantine/core'
import { type DragEvent, useId, useRef, useState } from 'react'
import { useWords } from '../../words/words'
import { useFault, useForm } from '../context'
import { FieldKey, type FieldProps, Help, RemoveButton } from '../field'
import { TEXTS, useSay } from '../texts'
import { Sealed } from './scalars'

/** Largest file that is read: what the gateway takes of a proto, with room. */
const FILE_BYTES_MAX = 2 * 1024 * 1024

/** A text of several lines; a certificate keeps its lines however it comes in. */
export function LongText(props: FieldProps) {
  const { path, label, schema, look, value, isRequired, isSecret, canRemove, isBare } = props
  const say = useSay()
  const words = useWords()
  const { set, sealed, place } = useForm()
  const fault = useFault(path)
  const input = useRef<HTMLInputElement>(null)
  const id = useId()
  const [isOver, over] = useState(false)
  const [refused, refuse] = useState<string>()
  const text = typeof value === 'string' ? value : ''
  if (text !== '' && sealed.has(text)) return <Sealed {...props} />
  const takesFile = look?.as === 'pem' || look?.as === 'proto'
  const change = (next: string) => set(path, JSON.stringify(next))
  const read = async (file: File | undefined) => {
    if (file === undefined) return
    if (file.size > FILE_BYTES_MAX) return refuse(say(TEXTS.tooLong))
    const content = await file.text()
    if (content.includes('\u0000') || content.includes('\ufffd')) return refuse(say(TEXTS.notText))
    refuse(undefined)
    change(content)
  }
  const drop = (event: DragEvent) => {
    event.preventDefault()
    over(false)
    void read(event.dataTransfer.files[0])
  }
  // What the gateway has and keeps is not missing.
  const placeholder = look?.isWriteOnly && place !== undefined && value === undefined ? words.secretSet : look?.as === 'pem' ? (isSecret || /key/.test(String(path.at(-1))) ? '-----BEGIN PRIVATE KEY-----' : '-----BEGIN CERTIFICATE-----') : look?.as === 'proto' ? 'syntax = "proto3";' : look?.placeholder
  return (
    <div className={isRequired ? 'field required' : 'field'}>
      {!isBare && <FieldKey path={path} />}
      <div className={isOver ? 'drop-field over' : 'drop-field'} {...(takesFile ? { onDragOver: (event: DragEvent) => { event.preventDefault(); over(true) }, onDragLeave: () => over(false), onDrop: drop } : {})}>
        <Textarea
          id={id} className={isSecret ? 'editor secret' : takesFile ? 'editor' : undefined} label={isBare ? undefined : label} aria-label={isBare ? label : undefined} description={<Help schema={schema} look={look} />}
          value={text} error={refused ?? fault} placeholder={placeholder} autosize minRows={takesFile ? 4 : 2} maxRows={12} spellCheck={false}
          onChange={(event) => change(event.currentTarget.value)}
          {...(canRemove && value !== undefined ? { rightSection: <RemoveButton path={path} label={label} />, rightSectionPointerEvents: 'all' as const } : {})}
        />
        {takesFile && (
          <div className="drop-foot">
            <span>{say(TEXTS.dropFile)} </span>
            <button type="button" aria-describedby={id} aria-label={`${say(TEXTS.chooseFile)}: ${label}`} onClick={() => input.current?.click()}>{say(TEXTS.chooseFile)}</button>
            <input ref={input} type="file" hidden data-file={String(path.at(-1))} onChange={(event) => { void read(event.currentTarget.files?.[0]); event.currentTarget.value = '' }} />
            {look?.as === 'pem' && text !== '' && <span className="drop-sum">{summary(text)}</span>}
          </div>
        )}
      </div>
    </div>
  )
}

/** What blocks a PEM text holds. */
function summary(text: string): string {
  const found = [...text.matchAll(/-----BEGIN ([A-Z0-9 ]+)-----/g)].map((match) => match[1] as string)
  const counts = new Map<string, number>()
  for (const label of found) counts.set(label, (counts.get(label) ?? 0) + 1)
  return [...counts].map(([label, count]) => `${count} × ${label}`).join(', ')
}
