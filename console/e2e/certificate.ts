/** Certificates that tests make for themselves. No test is here. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** PEM texts of a new certificate for a name, signed by itself, and of its key. */
export function certificate(name: string, days = 30): { cert: string; key: string } {
  const folder = mkdtempSync(join(tmpdir(), 'tollhouse-e2e-'))
  const [key, cert] = [join(folder, 'key'), join(folder, 'cert')]
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', String(days), '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-keyout', key, '-out', cert], { stdio: 'ignore' })
  const made = { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') }
  rmSync(folder, { recursive: true })
  return made
}
