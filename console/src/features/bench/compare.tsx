/** Two measurements beside each other, in the words of the load generator. */
import { Anchor, Text } from '@mantine/core'
import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { json, query } from '../../api/client'
import { Empty, ErrorBox, Loading, ScreenHead } from '../../ui/states'
import { useWords } from '../../words/words'

const api = getRouteApi('/bench/compare')

export function BenchCompare() {
  const words = useWords()
  const { before, after } = api.useSearch()
  const found = useQuery({
    queryKey: ['bench-compare', before, after],
    enabled: before !== undefined && after !== undefined,
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: ({ signal }) => json<{ text: string }>(`/console/v1/bench/compare${query({ before, after })}`, { signal }),
  })
  return (
    <>
      <Text size="sm" mb={4} className="crumbs"><Anchor component={Link} to="/bench">{words.bench}</Anchor> / {words.compare}</Text>
      <ScreenHead title={words.compare} note={words.compareHelp} />
      {before === undefined || after === undefined ? <Empty>{words.compareHelp}</Empty> : found.isError ? <ErrorBox error={found.error} retry={() => void found.refetch()} since={found.dataUpdatedAt} /> : found.data === undefined ? <Loading /> : (
        <pre className="code" tabIndex={0} lang="en" aria-label={words.compare}>{found.data.text}</pre>
      )}
    </>
  )
}
