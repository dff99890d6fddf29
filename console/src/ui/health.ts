/** The state of the whole gateway in one word, from its findings and its traffic. */
import type { Finding } from '../api/types'

export interface Health {
  state: 'good' | 'warn' | 'bad'
  /** Findings because of which requests fail now. */
  problems: number
}

/** Good only where nothing is wrong and no request of the last seconds has failed. */
export function healthOf(findings: Pick<Finding, 'severity'>[], recentFailures: number): Health {
  const problems = findings.filter((finding) => finding.severity === 'problem').length
  const hasWarning = findings.some((finding) => finding.severity === 'warning')
  return { problems, state: problems > 0 ? 'bad' : hasWarning || recentFailures > 0 ? 'warn' : 'good' }
}
