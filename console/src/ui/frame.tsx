/** What stands around every screen: places, revision, person, notices. */
import {
  ActionIcon, Anchor, AppShell, Badge, Burger, Button, Group, Kbd, Menu, Modal, NavLink, ScrollArea, Stack, Text,
  UnstyledButton, useMantineColorScheme,
} from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { Fragment } from 'react'
import { call, useSilence } from '../api/client'
import { useOverview } from '../api/live'
import { dropProof } from '../api/proof'
import { useWho } from '../api/session'
import { useLanguage, useWords } from '../words/words'
import { Keys, useKeys } from './keys'
import { Palette } from './palette'
import { placeAt, SECTIONS, usePlaces } from './places'
import { Saved } from './saved'
import { Empty, ErrorBox, ScreenHead } from './states'

export function NotFound() {
  const words = useWords()
  return <><ScreenHead title={words.notFound} /><Empty><Anchor component={Link} to="/">{words.overview}</Anchor></Empty></>
}

/** A screen that cannot be drawn says so, and what is around it stays. */
export function Failed({ error, reset }: { error: unknown; reset: () => void }) {
  const words = useWords()
  return <><ScreenHead title={words.screenFailed} /><ErrorBox error={error} retry={reset} /></>
}

/** What stands around every screen. */
export function Frame() {
  const words = useWords()
  const [isOpen, menu] = useDisclosure(false)
  const [hasPalette, palette] = useDisclosure(false)
  const [hasHelp, help] = useDisclosure(false)
  useKeys(palette.open, help.open)
  return (
    <AppShell header={{ height: 52 }} navbar={{ width: 216, breakpoint: 'sm', collapsed: { mobile: !isOpen } }} padding="md">
      <a className="skip" href="#content">{words.skip}</a>
      <AppShell.Header>
        <Group h="100%" px="md" justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="xs" wrap="nowrap">
            <Burger opened={isOpen} onClick={menu.toggle} hiddenFrom="sm" size="sm" aria-label={words.menu} />
            <Text fw={700} component={Link} to="/" c="inherit" td="none">Tollhouse</Text>
          </Group>
          <Button variant="default" size="xs" onClick={palette.open} className="hide-narrow" rightSection={<Kbd size="xs">Ctrl K</Kbd>}>
            {words.paletteHint}
          </Button>
          <Group gap="xs" wrap="nowrap">
            <RevisionBadge />
            <Button variant="default" size="xs" onClick={palette.open} hiddenFrom="xs" aria-label={words.paletteHint}>⌕</Button>
            <Person openHelp={help.open} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar>
        <AppShell.Section grow component={ScrollArea} p="xs"><Places close={menu.close} /></AppShell.Section>
      </AppShell.Navbar>
      <AppShell.Main id="content">
        <Notices />
        <Saved />
        <Outlet />
      </AppShell.Main>
      {hasPalette && <Palette close={palette.close} />}
      <Modal opened={hasHelp} onClose={help.close} title={words.keysTitle}><Keys /></Modal>
    </AppShell>
  )
}

function Places({ close }: { close: () => void }) {
  const words = useWords()
  const path = useRouterState({ select: (state) => state.location.pathname })
  const places = usePlaces()
  const here = placeAt(places, path)?.to
  return SECTIONS.map((section) => {
    const own = places.filter((place) => place.section === section)
    return own.length > 0 && (
      <Fragment key={section}>
        <Text size="xs" c="dimmed" fw={600} mt="sm" mb={2} px="sm">{words[section]}</Text>
        {own.map(({ to, title }) => (
          <NavLink key={to} component={Link} to={to} activeOptions={{ exact: true }} label={title(words)} active={to === here} aria-current={to === here ? 'page' : undefined} onClick={close} py={5} />
        ))}
      </Fragment>
    )
  })
}

function RevisionBadge() {
  const words = useWords()
  const { data } = useOverview()
  if (data === undefined) return null
  const { revision, problem_count: problems } = data
  return (
    <Badge variant="light" color={problems > 0 ? 'red' : 'gray'} className="state" component={Link} to="/">
      {problems > 0 ? words.problemsCount(problems) : words.revision(revision)}
    </Badge>
  )
}

function Person({ openHelp }: { openHelp: () => void }) {
  const words = useWords()
  const who = useWho()
  const client = useQueryClient()
  const { language, choose } = useLanguage()
  const { setColorScheme, colorScheme } = useMantineColorScheme()
  const schemes = [['light', words.themeLight], ['dark', words.themeDark], ['auto', words.themeAuto]] as const
  const me = words.signedInAs(who.name ?? '', who.role ? words.roles[who.role] : '')
  const signOut = async () => {
    await call('/console/v1/login', { method: 'DELETE' })
    dropProof()
    client.clear()
    location.assign('/ui/')
  }
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="default" size="md" aria-label={me}>☰</ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {who.name && <Menu.Label>{me}</Menu.Label>}
        <Menu.Label>{words.theme}</Menu.Label>
        {schemes.map(([scheme, label]) => (
          <Menu.Item key={scheme} aria-current={colorScheme === scheme || undefined} onClick={() => setColorScheme(scheme)} rightSection={colorScheme === scheme ? '✓' : undefined}>{label}</Menu.Item>
        ))}
        <Menu.Divider />
        {(['en', 'zh'] as const).map((one) => (
          <Menu.Item key={one} lang={one} aria-current={language === one || undefined} onClick={() => choose(one)} rightSection={language === one ? '✓' : undefined}>{one === 'en' ? 'English' : '中文'}</Menu.Item>
        ))}
        <Menu.Divider />
        <Menu.Item onClick={openHelp}>{words.keysTitle}</Menu.Item>
        {who.key_required && <><Menu.Divider /><Menu.Item onClick={signOut}>{words.signOut}</Menu.Item></>}
      </Menu.Dropdown>
    </Menu>
  )
}

/** What concerns every screen: an open door, what keeps objects from being written, a gateway that is silent. */
function Notices() {
  const words = useWords()
  const { language } = useLanguage()
  const who = useWho()
  const silentSince = useSilence()
  const notices: [string, string][] = []
  if (silentSince !== undefined) notices.push(['red', words.silentSince(new Date(silentSince).toLocaleTimeString(language))])
  if (!who.key_required) notices.push(['red', words.openDoor])
  if (who.mode === 'file') notices.push(['blue', words.readOnlyFile(who.reason ?? '')])
  if (who.mode === 'away') notices.push(['yellow', words.away(who.reason ?? '')])
  if (notices.length === 0) return null
  return (
    <Stack gap={6} mb="md">
      {notices.map(([color, text]) => (
        <Text key={text} size="sm" role="status" className="card" bd={`1px solid var(--mantine-color-${color}-6)`}>{text}</Text>
      ))}
    </Stack>
  )
}

/** A row or a text that leads somewhere; a cell filters by itself. */
export function Opens({ children, onClick, isCell }: { children: React.ReactNode; onClick: () => void; isCell?: boolean }) {
  return <UnstyledButton className="rowlink" data-cell={isCell} c="var(--mantine-color-anchor)" onClick={onClick}>{children}</UnstyledButton>
}
