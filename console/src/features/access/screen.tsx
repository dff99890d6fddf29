/** Who may do what: users, groups, roles, policies, and what would have been refused before policies are enforced. */
import { SegmentedControl } from '@mantine/core'
import { getRouteApi } from '@tanstack/react-router'
import { useRefusal } from '../../ui/permission'
import { useWho } from '../../api/session'
import { Scroll } from '../../ui/scroll'
import { ScreenHead } from '../../ui/states'
import '../../ui/registry.css'
import { useWords } from '../../words/words'
import { Groups } from './groups'
import { Policies } from './policies'
import { RehearsalView } from './rehearsal'
import { Roles } from './roles'
import { Users } from './users'

const api = getRouteApi('/access')
const TABS = ['users', 'groups', 'roles', 'policies', 'rehearsal'] as const
export type AccessTab = (typeof TABS)[number]

export function Access() {
  const words = useWords()
  const say = words.access
  const { tab = 'users' } = api.useSearch()
  const navigate = api.useNavigate()
  const who = useWho()
  // Users and policies are no business of operators; of people their own policies decide.
  const silent = useRefusal('registry')
  const refused = silent ?? (who.role === 'operator' ? say.operatorCannot : undefined)
  return (
    <>
      <ScreenHead title={say.title} note={say.help} />
      <Scroll>
        <SegmentedControl mb="md" size="xs" aria-label={words.view} value={tab} data={TABS.map((one) => ({ value: one, label: say.tabs[one] }))}
          onChange={(value) => void navigate({ search: value === 'users' ? {} : { tab: value as AccessTab } })} />
      </Scroll>
      {tab === 'users' && <Users refused={refused} />}
      {tab === 'groups' && <Groups refused={refused} />}
      {tab === 'roles' && <Roles refused={refused} />}
      {tab === 'policies' && <Policies refused={refused} />}
      {tab === 'rehearsal' && <RehearsalView />}
    </>
  )
}
