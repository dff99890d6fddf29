/** How many rows there are, told once they are those that were asked for. */
import { Text } from '@mantine/core'
import { useEffect, useRef, useState } from 'react'

/** How many there are. It is said aloud where somebody has asked for others, and not where it changes by itself. */
export function Count({ text, asked, isOld }: { text: string; asked: string; isOld: boolean }) {
  const last = useRef(asked)
  const [said, say] = useState('')
  useEffect(() => {
    if (isOld || last.current === asked) return
    last.current = asked
    say(text)
  }, [text, asked, isOld])
  return <Text size="sm" c="dimmed">{text}<span className="unseen" role="status">{said}</span></Text>
}
