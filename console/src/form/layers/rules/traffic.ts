/** Forms of traffic mirroring and fault injection. */
import { type Layer, plain } from '../layer'
import { CALLERS_V1, DESTINATIONS_V1, NAMESPACE, OF_NAMESPACE, OF_SERVICE, ON, SERVICE } from './shared'

const OWN = { title: ['General', '基本'], items: ['service', 'namespace', 'enabled'] } as const
const LABELS = { title: ['Notes', '备注'], items: ['metadata'], isFolded: true } as const
const FIELDS = { service: SERVICE, namespace: NAMESPACE, enabled: ON, sources: CALLERS_V1, metadata: { title: ['Labels', '标签'] } } as const

export const trafficMirroring: Layer = {
  needs: [OF_SERVICE, OF_NAMESPACE, { title: ['Copied share', '镜像比例'], sides: [['mirroringPercent']] }, { title: ['Destination', '目标'], sides: [['destinations']] }],
  sections: [
    { ...OWN, items: [...OWN.items] },
    { title: ['Copies', '镜像'], items: ['mirroringPercent', 'destinations'] },
    { title: ['Calls', '调用'], note: ['Whose calls are copied.', '镜像哪些调用。'], items: ['sources'] },
    { ...LABELS, items: [...LABELS.items] },
  ],
  fields: {
    ...FIELDS, mirroringPercent: { title: ['Copied share', '镜像比例'], unit: 'percent', placeholder: '10' },
    destinations: { ...DESTINATIONS_V1, title: ['Copies go to', '镜像发往'] },
  },
}

export const faultInjection: Layer = {
  needs: [OF_SERVICE, OF_NAMESPACE, { title: ['Delay or error', '延迟或错误'], sides: [['delayFault'], ['abortFault']] }],
  sections: [
    { ...OWN, items: [...OWN.items] },
    { title: ['Faults', '故障'], note: ['Share of the calls that are delayed, or answered with an error.', '被延迟或返回错误的调用比例。'], items: ['delayFault', 'abortFault'] },
    { title: ['Calls', '调用'], note: ['Whose calls get the faults.', '对哪些调用注入故障。'], items: ['sources'] },
    { ...LABELS, items: [...LABELS.items] },
  ],
  fields: {
    ...FIELDS,
    delayFault: {
      title: ['Delay', '延迟'], inline: 'titled', isRow: true,
      layer: { ...plain({ delayPercent: { title: ['Share of the calls', '调用比例'], unit: 'percent', placeholder: '10' }, delay: { title: ['Delay', '延迟'], unit: 'milliseconds', placeholder: '100' } }), needs: [{ title: ['Delay', '延迟'], sides: [['delay']], when: ({ delayPercent }) => delayPercent !== undefined && delayPercent !== 0 }] },
    },
    abortFault: {
      title: ['Error', '错误'], inline: 'titled', isRow: true,
      layer: { ...plain({ abortPercent: { title: ['Share of the calls', '调用比例'], unit: 'percent', placeholder: '5' }, abortCode: { title: ['Status', '状态码'], placeholder: '503' } }), needs: [{ title: ['Status', '状态码'], sides: [['abortCode']], when: ({ abortPercent }) => abortPercent !== undefined && abortPercent !== 0 }] },
    },
  },
}
