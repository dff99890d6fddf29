/** An object as the Admin API gives it, and the ways to say it elsewhere. Its numbers are not parsed. */
import { useQuery } from '@tanstack/react-query'
import { call } from '../../api/client'
import { memberText, pretty, withoutMembers } from '../../lib/json-text'
import { quoted } from '../../lib/curl'
import { setAt } from '../../lib/pointer'
import { toYaml } from '../../lib/yaml'

/** When an object was made and changed: the gateway's to say, and refused where a client writes it. */
const TIMES = ['create_time', 'update_time']

/** An object as the Admin API gives it: its text, what of it may be written, and the revision that it was read at. */
export interface Stored {
  text: string
  editable: string
  revision: number
}

/** Ids of secrets have two parts. */
export const pathOf = (kind: string, id: string) => `/apisix/admin/${kind}/${id.split('/').map(encodeURIComponent).join('/')}`

/** Reads an answer of the Admin API without parsing the object's numbers. */
export function stored(answer: string): Stored {
  const value = memberText(answer, 'value') ?? '{}'
  return { text: pretty(value), editable: pretty(withoutMembers(value, TIMES)), revision: Number(memberText(answer, 'modifiedIndex') ?? 0) }
}

export const useObject = (kind: string, id: string) =>
  useQuery({
    queryKey: ['object', kind, id],
    // What is being edited must not change below the hands.
    refetchOnWindowFocus: false,
    queryFn: async ({ signal }) => stored((await call(pathOf(kind, id), { signal })).text),
  })

/** The command that makes this object, on any gateway. */
export const curlOf = (kind: string, id: string, text: string) =>
  `curl -X PUT ${quoted(location.origin + pathOf(kind, id))} -H "X-API-KEY: $ADMIN_KEY" -d ${quoted(text)}`

/** The same as a command of the CLI, which leaves all other objects alone. */
export const cliOf = (kind: string, id: string, text: string) =>
  `tollhouse import /dev/stdin --format yaml --yes --admin ${quoted(location.origin)} --admin-key "$ADMIN_KEY" <<'TOLLHOUSE'\n${yamlOf(kind, id, text)}TOLLHOUSE`

/** The same as a file that `tollhouse import` reads. */
export const yamlOf = (kind: string, id: string, text: string) => {
  // Consumers are known by their username, and have no other id.
  const own = kind === 'consumers' ? text : setAt(text, ['id'], JSON.stringify(id))
  return `${kind}:\n${toYaml(`[${own}]`, 1)}\n#END\n`
}
