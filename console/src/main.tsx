/** Where the page begins: providers around the router. Screens are in `routes.tsx`. */
import './ui/mantine.css'
import './ui/tokens.css'
import './ui/base.css'
import './ui/frame.css'
import './ui/table.css'
import './chart/chart.css'
import { MantineProvider } from '@mantine/core'
import { QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { setNonce } from 'get-nonce'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { ApiError } from './api/client'
// Before the routes, which read the address.
import './api/openid'
import { Gate } from './ui/gate'
import { applyDensity } from './ui/layout'
import { theme } from './ui/theme'
import { router } from './routes'
import { initialLanguage, loadWords, WordsProvider } from './words/words'

const nonce = document.querySelector<HTMLMetaElement>('meta[name="csp-nonce"]')?.content ?? ''
setNonce(nonce)

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1000,
      // A refusal stays one; only silence is worth asking again.
      retry: (count, error) => !(error instanceof ApiError) && count < 1,
      refetchOnWindowFocus: true,
    },
  },
})

applyDensity()
const language = initialLanguage()
const first = { language, words: await loadWords(language) }

createRoot(document.getElementById('root') as HTMLElement).render(
  <StrictMode>
    <MantineProvider theme={theme} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <WordsProvider first={first}>
        <QueryClientProvider client={queries}>
          <Gate><RouterProvider router={router} /></Gate>
        </QueryClientProvider>
      </WordsProvider>
    </MantineProvider>
  </StrictMode>,
)
