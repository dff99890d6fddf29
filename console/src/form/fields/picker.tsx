/** A field that finds one of many: what is typed narrows a list. What the list is of is not known here. */
import { CloseButton, TextInput, type TextInputProps } from '@mantine/core'
import { type KeyboardEvent, type ReactNode, useId, useState } from 'react'
import { TEXTS, useSay } from '../texts'

export interface Option { value: string; title: string; note?: string }

interface Props {
  label: string
  isBare?: boolean
  /** What is chosen, and what it is called where that is known. */
  value: string
  options: Option[]
  /** Called with what is typed. */
  search: (text: string) => void
  pick: (value: string) => void
  clear?: () => void
  description?: ReactNode
  error?: TextInputProps['error']
  placeholder?: string
  /** What stands below the options. */
  foot?: ReactNode
}

/** A combobox: arrows and Enter choose, Escape leaves, and what is typed may be taken as it is. */
export function Picker({ label, isBare, value, options, search, pick, clear, description, error, placeholder, foot }: Props) {
  const say = useSay()
  const id = useId()
  const [draft, setDraft] = useState<string>()
  const [at, setAt] = useState(0)
  const isOpen = draft !== undefined
  const known = options.find((option) => option.value === value)
  const type = (text: string) => {
    setDraft(text)
    setAt(0)
    search(text)
  }
  const take = (next: string) => {
    pick(next)
    setDraft(undefined)
  }
  const onKey = (event: KeyboardEvent) => {
    if (!isOpen) return
    if (event.key === 'ArrowDown' || event.key === 'ArrowUp') {
      event.preventDefault()
      setAt((now) => Math.min(Math.max(now + (event.key === 'ArrowDown' ? 1 : -1), 0), Math.max(options.length - 1, 0)))
    } else if (event.key === 'Enter') {
      event.preventDefault()
      const chosen = options[at]
      if (chosen) take(chosen.value)
    } else if (event.key === 'Escape') setDraft(undefined)
  }
  const leave = () => {
    // A text that is nobody's title is taken as it is: it may name what is not there yet.
    if (draft !== undefined && draft !== '' && draft !== (known?.title ?? value)) pick(options.find((option) => option.title === draft)?.value ?? draft)
    setDraft(undefined)
  }
  return (
    <div className="picker" onBlur={(event) => !event.currentTarget.contains(event.relatedTarget) && leave()}>
      <TextInput
        label={isBare ? undefined : label} aria-label={isBare ? label : undefined} description={description} error={error} placeholder={placeholder ?? say(TEXTS.search)}
        role="combobox" aria-expanded={isOpen} aria-controls={isOpen ? `${id}-list` : undefined} aria-autocomplete="list" aria-activedescendant={isOpen && options[at] ? `${id}-${at}` : undefined}
        value={draft ?? known?.title ?? value} autoComplete="off" spellCheck={false}
        onFocus={() => { search(''); setDraft(known?.title ?? value); setAt(0) }} onClick={() => setDraft((now) => now ?? known?.title ?? value)}
        onChange={(event) => type(event.currentTarget.value)} onKeyDown={onKey}
        rightSection={clear && value !== '' ? <CloseButton size="sm" tabIndex={-1} aria-label={`${say(TEXTS.notSet)}: ${label}`} onClick={() => { clear(); setDraft(undefined) }} /> : <span className="chevron" aria-hidden>▾</span>}
      />
      {isOpen && (
        <div className="picker-pop">
          <ul id={`${id}-list`} role="listbox" aria-label={label}>
            {options.map((option, index) => (
              <li
                key={option.value} id={`${id}-${index}`} role="option" aria-selected={option.value === value} className={index === at ? 'at' : undefined}
                onPointerDown={(event) => { event.preventDefault(); take(option.value) }}
              >
                <span>{option.title}</span>{option.note && <small>{option.note}</small>}
              </li>
            ))}
          </ul>
          {options.length === 0 && <p className="picker-none">{say(TEXTS.nothingFound)}</p>}
          {foot && <div className="picker-foot">{foot}</div>}
        </div>
      )}
    </div>
  )
}
