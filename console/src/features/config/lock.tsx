/** A lock, drawn: not every system has a letter for it. */
export function Lock({ label }: { label?: string }) {
  return (
    <svg width="11" height="12" viewBox="0 0 11 12" fill="none" stroke="currentColor" strokeWidth="1.4" className="lock" {...(label ? { role: 'img', 'aria-label': label } : { 'aria-hidden': true })}>
      <rect x="1" y="5" width="9" height="6.3" rx="1.2" fill="currentColor" stroke="none" />
      <path d="M2.8 5.5V3.6a2.7 2.7 0 0 1 5.4 0v1.9" />
    </svg>
  )
}
