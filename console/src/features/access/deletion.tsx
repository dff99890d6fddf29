/** Deletion of a user, group, role or policy. */
import { writePolaris } from '../../api/polaris'
import { Deletion as Dialog } from '../../ui/deletion'
import { useForgetAccess } from './queries'

export function Deletion({ name, help, path, id, close }: { name: string; help: string; path: string; id: string; close: () => void }) {
  const forget = useForgetAccess()
  const remove = async () => {
    await writePolaris('POST', path, [{ id, name }])
    await forget()
    close()
  }
  return <Dialog what={name} typed={name} help={help} remove={remove} close={close} />
}
