/** A text with line numbers, edited as plain text: a textarea, so that everything a browser does with texts works. */
import { useEffect, useRef } from 'react'

interface Props { label: string; value: string; set?: (value: string) => void; fault?: number }

/** `fault` is the number of a line that is wrong: it is marked and scrolled to. Without `set` the text is only read. */
export function TextEditor({ label, value, set, fault }: Props) {
  const area = useRef<HTMLTextAreaElement>(null)
  const gutter = useRef<HTMLPreElement>(null)
  const count = value.split('\n').length
  const scroll = () => {
    if (gutter.current && area.current) gutter.current.scrollTop = area.current.scrollTop
  }
  useEffect(() => {
    const box = area.current
    if (fault === undefined || box === null) return
    const start = box.value.split('\n').slice(0, fault - 1).join('\n').length + (fault > 1 ? 1 : 0)
    const end = box.value.indexOf('\n', start)
    box.focus()
    box.setSelectionRange(start, end < 0 ? box.value.length : end)
    box.scrollTop = Math.max(0, (fault - 4) * Number.parseFloat(getComputedStyle(box).lineHeight))
    scroll()
  }, [fault])
  return (
    <div className="numbered">
      <pre ref={gutter} aria-hidden className="gutter">
        {Array.from({ length: count }, (_, at) => <span key={at} className={at + 1 === fault ? 'fault' : undefined}>{at + 1}</span>)}
      </pre>
      <textarea ref={area} aria-label={label} value={value} readOnly={set === undefined} wrap="off" spellCheck={false} autoCapitalize="off" autoCorrect="off"
        rows={Math.min(32, Math.max(14, count + 1))} onScroll={scroll} onChange={(event) => set?.(event.currentTarget.value)} aria-invalid={fault !== undefined || undefined} />
    </div>
  )
}
