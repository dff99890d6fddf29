/** What stands around every screen: places, revision, person, notices. */
import { ActionIcon, Anchor, AppShell, Burger, Group, Kbd, Modal, Stack, Text, UnstyledButton, useMantineColorScheme } from '@mantine/core'
import { useDisclosure } from '@mantine/hooks'
import { useQueryClient } from '@tanstack/react-query'
import { Link, Outlet } from '@tanstack/react-router'
import { call, useSilence } from '../api/client'
import { useOverview } from '../api/live'
import { dropProof } from '../api/proof'
import { useWho } from '../api/session'
import { useLanguage, useWords } from '../words/words'
import { healthOf } from './health'
import { Icon, Logo } from './icons'
import { Keys, useKeys } from './keys'
import { setDensity, setGuide, useLayout } from './layout'
import { Menu, MenuChoice, MenuGroup, MenuItem, MenuLink } from './menu'
import { Navigation } from './navigation'
import { Palette } from './palette'
import { Saved } from './saved'
import { Empty, ErrorBox, ScreenHead, StateBadge } from './states'

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
  const { isRail } = useLayout()
  useKeys(palette.open, help.open)
  return (
    <AppShell layout="alt" header={{ height: 52 }} navbar={{ width: isRail ? 60 : 224, breakpoint: 'sm', collapsed: { mobile: !isOpen } }} padding={0}>
      <a className="skip" href="#content">{words.skip}</a>
      <AppShell.Header className="topbar">
        <Group h="100%" px="md" justify="space-between" wrap="nowrap" gap="sm">
          <Group gap="xs" wrap="nowrap" hiddenFrom="sm">
            <Burger opened={isOpen} onClick={menu.toggle} size="sm" aria-label={words.menu} />
            <Link to="/" className="brand brand-small" aria-label="Tollhouse"><Logo size={24} /></Link>
          </Group>
          <UnstyledButton onClick={palette.open} className="search hide-narrow">
            <Icon name="search" size={16} /><span>{words.paletteHint}</span><Kbd size="xs">Ctrl K</Kbd>
          </UnstyledButton>
          <Group gap="xs" wrap="nowrap">
            <HealthPill />
            <ActionIcon variant="default" size="md" className="only-narrow" onClick={palette.open} aria-label={words.paletteHint}><Icon name="search" size={16} /></ActionIcon>
            <Person openHelp={help.open} />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar className={isRail ? 'nav rail' : 'nav'}><Navigation isOpen={isOpen} close={menu.close} toggle={menu.toggle} /></AppShell.Navbar>
      <AppShell.Main id="content">
        <div className="page">
          <Notices />
          <Saved />
          <Outlet />
        </div>
      </AppShell.Main>
      {hasPalette && <Palette close={palette.close} />}
      <Modal opened={hasHelp} onClose={help.close} title={words.keysTitle}><Keys /></Modal>
    </AppShell>
  )
}

/** The state of the gateway in a word, on every screen, with the way to what is wrong. */
function HealthPill() {
  const words = useWords()
  const { data } = useOverview()
  if (data === undefined) return null
  const { problems, state } = healthOf(data.findings, data.failed_recently)
  const label = problems > 0 ? words.problemsCount(problems) : data.failed_recently > 0 ? words.failuresNow(data.failed_recently) : state === 'warn' ? words.warningsCount(data.findings.filter(({ severity }) => severity === 'warning').length) : words.noProblems
  return (
    <Group gap="xs" wrap="nowrap">
      <Link to="/" className="pill-link"><StateBadge state={state} label={label} /></Link>
      <Text size="xs" c="dimmed" className="nowrap hide-medium">{words.revision(data.revision)}</Text>
    </Group>
  )
}

function Person({ openHelp }: { openHelp: () => void }) {
  const words = useWords()
  const who = useWho()
  const client = useQueryClient()
  const { language, choose } = useLanguage()
  const { setColorScheme, colorScheme } = useMantineColorScheme()
  const { density } = useLayout()
  const schemes = [['light', words.themeLight], ['dark', words.themeDark], ['auto', words.themeAuto]] as const
  const me = words.signedInAs(who.name ?? '', who.role ? words.roles[who.role] : '')
  const signOut = async () => {
    await call('/console/v1/login', { method: 'DELETE' })
    dropProof()
    client.clear()
    location.assign('/ui/')
  }
  return (
    <Menu label={me} button={(opener) => <ActionIcon variant="default" size="md" aria-label={me} {...opener}><Icon name="person" size={17} /></ActionIcon>}>
      {who.name && <div className="menu-title">{me}</div>}
      <MenuGroup title={words.theme}>
        {schemes.map(([scheme, label]) => <MenuChoice key={scheme} isChosen={colorScheme === scheme} onClick={() => setColorScheme(scheme)}>{label}</MenuChoice>)}
      </MenuGroup>
      <MenuGroup title={words.density}>
        {(['comfortable', 'compact'] as const).map((one) => <MenuChoice key={one} isChosen={density === one} onClick={() => setDensity(one)}>{words.densities[one]}</MenuChoice>)}
      </MenuGroup>
      <MenuGroup>
        {(['en', 'zh'] as const).map((one) => <MenuChoice key={one} lang={one} isChosen={language === one} onClick={() => choose(one)}>{one === 'en' ? 'English' : '中文'}</MenuChoice>)}
      </MenuGroup>
      <MenuGroup>
        <MenuItem onClick={openHelp}>{words.keysTitle}</MenuItem>
        <MenuLink to="/" onClick={() => setGuide('open')}>{words.guideTitle}</MenuLink>
        {who.key_required && <MenuItem onClick={() => void signOut()}>{words.signOut}</MenuItem>}
      </MenuGroup>
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
