/** Frames within which something wide scrolls, by keys too. */
import { type ReactNode, useEffect, useRef, useState } from 'react'

/** A frame within which something wide scrolls. What has nothing in it that takes the focus takes it itself, so that keys scroll it. */
export function Scroll({ children }: { children: ReactNode }) {
  const frame = useRef<HTMLDivElement>(null)
  const [takesFocus, setTakesFocus] = useState(false)
  useEffect(() => {
    const box = frame.current
    if (box === null) return
    const look = () => setTakesFocus(box.scrollWidth > box.clientWidth && box.querySelector('a[href], button, input, select') === null)
    const watcher = new ResizeObserver(look)
    for (const part of [box, ...box.children]) watcher.observe(part)
    return () => watcher.disconnect()
  }, [])
  return <div ref={frame} className="scroll" tabIndex={takesFocus ? 0 : undefined}>{children}</div>
}
