/** Signing in: before the page, and over it where a session ends. */
import { Alert, Button, Divider, Group, Modal, Paper, PasswordInput, Stack, Text, Title } from '@mantine/core'
import { useQueryClient } from '@tanstack/react-query'
import { type FormEvent, type ReactNode, useEffect, useRef, useState } from 'react'
import { json, whenSignedOut } from '../api/client'
import { completed, logIn } from '../api/openid'
import { keepProof, shareProof } from '../api/proof'
import { SessionProvider, useWhoQuery } from '../api/session'
import type { SignedIn } from '../api/types'
import { useWords } from '../words/words'
import { Logo } from './icons'
import { ErrorBox, Loading } from './states'

/** Lets in who has a key. A session that ends covers the page with the form, and what was typed below survives. */
export function Gate({ children }: { children: ReactNode }) {
  const words = useWords()
  const who = useWhoQuery()
  const [wasIn, setWasIn] = useState(false)
  const build = useRef<string>(undefined)
  const { refetch, data } = who
  useEffect(() => whenSignedOut(() => void refetch()), [refetch])
  useEffect(() => shareProof(() => void refetch()), [refetch])
  useEffect(() => {
    if (data?.signed_in) setWasIn(true)
    build.current ??= data?.build
  }, [data])
  if (data === undefined) {
    return <main className="sign-in">{who.isError ? <ErrorBox error={who.error} retry={() => void refetch()} /> : <Loading rows={3} />}</main>
  }
  if (!data.signed_in && !wasIn) return <main className="sign-in"><SignIn /></main>
  const isNewer = build.current !== undefined && build.current !== data.build
  return (
    <SessionProvider who={data}>
      {isNewer && (
        <Alert color="blue" className="newer">
          <Group justify="space-between">
            <Text size="sm">{words.newBuild}</Text>
            <Button size="xs" onClick={() => location.reload()}>{words.reload}</Button>
          </Group>
        </Alert>
      )}
      {children}
      <Modal opened={!data.signed_in} onClose={() => {}} withCloseButton={false} centered title={words.signInTitle}>
        <SignInForm />
      </Modal>
    </SessionProvider>
  )
}

function SignIn() {
  const words = useWords()
  return (
    <Paper withBorder p="xl" w="100%" maw={420} radius="lg" shadow="md">
      <div className="sheet"><Logo size={36} /><Title order={1} size="h2">Tollhouse</Title></div>
      <Text c="dimmed" mb="md" mt={4}>{words.signInTitle}</Text>
      <SignInForm />
    </Paper>
  )
}

function SignInForm() {
  const words = useWords()
  const client = useQueryClient()
  const field = useRef<HTMLInputElement>(null)
  const [key, setKey] = useState('')
  const [error, setError] = useState<unknown>()
  const provider = useWhoQuery().data?.openid
  const [isBusy, setBusy] = useState(false)
  const [isAway, setAway] = useState(completed() !== undefined)
  useEffect(() => {
    completed()
      ?.then(({ proof }) => {
        keepProof(proof)
        return client.invalidateQueries()
      })
      .catch(setError)
      .finally(() => setAway(false))
  }, [client])
  const leave = async () => {
    setAway(true)
    try {
      await logIn()
    } catch (refused) {
      setError(refused)
      setAway(false)
    }
  }
  const submit = async (event: FormEvent) => {
    event.preventDefault()
    setBusy(true)
    try {
      const { proof } = await json<SignedIn>('/console/v1/login', { method: 'POST', body: JSON.stringify({ key: key.trim() }) })
      keepProof(proof)
      setKey('')
      await client.invalidateQueries()
    } catch (refused) {
      setError(refused)
      field.current?.focus()
    } finally {
      setBusy(false)
    }
  }
  return (
    <form onSubmit={submit}>
      <Stack>
        {error !== undefined && <ErrorBox error={error} />}
        <PasswordInput
          ref={field}
          label={words.key}
          description={words.signInHelp}
          autoComplete="current-password"
          name="key"
          required
          autoFocus
          value={key}
          onChange={(event) => setKey(event.currentTarget.value)}
          visibilityToggleButtonProps={{ 'aria-label': words.showKey, tabIndex: 0 }}
        />
        <Button type="submit" loading={isBusy}>{words.signIn}</Button>
        {provider && (
          <>
            <Divider label={words.or} />
            <Button variant="default" loading={isAway} onClick={() => void leave()}>{words.logInWith(provider)}</Button>
          </>
        )}
      </Stack>
    </form>
  )
}
