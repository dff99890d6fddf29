/** Dialogs, and where the focus goes when they end. */
import { Modal, type ModalProps } from '@mantine/core'
import { useEffect, useState } from 'react'

/** A dialog that stands as long as it is drawn. The focus goes back to where it was, or to the heading where that is gone. */
export function Dialog(props: Omit<ModalProps, 'opened'>) {
  const [before] = useState(() => document.activeElement)
  useEffect(() => () => {
    // Whoever has taken the focus meanwhile keeps it.
    if (document.activeElement !== document.body) return
    if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true })
    if (document.activeElement === document.body) document.querySelector<HTMLElement>('h1')?.focus({ preventScroll: true })
  }, [before])
  return <Modal opened {...props} />
}
