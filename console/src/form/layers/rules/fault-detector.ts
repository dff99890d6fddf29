/** Form of fault detection: probes of a service. */
import { type Layer, lines, type Look, plain } from '../layer'
import { API, comparison, HEADERS, NAMESPACE, NOTES, ORDER, SERVICE, SHARED } from './shared'

const exchange = (title: Look['title'], protocol: string): Look => ({
  title, inline: 'titled', when: (rule) => rule.protocol === protocol,
  layer: plain({ send: { title: ['Send', '发送'], help: ['Bytes as 0x… Empty: only a connection is made.', '字节写作 0x…；留空则只建立连接。'] }, receive: { title: ['Answers that count as success', '视为成功的应答'] } }),
})

export const faultDetector: Layer = {
  needs: [{ title: ['Interval', '间隔'], sides: [['interval']] }],
  sections: [
    { title: ['General', '基本'], items: ['name', 'namespace'] },
    { title: ['Probed service', '探测对象'], items: ['targetService'] },
    { title: ['Probe', '探测'], items: ['protocol', 'port', 'interval', 'timeout', 'httpConfig', 'tcpConfig', 'udpConfig'] },
    { title: NOTES.title, items: ['priority', 'description', 'metadata', 'extend_info'], isFolded: true },
  ],
  fields: {
    ...SHARED,
    extend_info: { title: ['Notes of tools', '工具备注'] },
    priority: ORDER,
    targetService: {
      title: ['Probed service', '探测对象'], inline: 'bare',
      layer: {
        ...lines({ service: SERVICE, namespace: NAMESPACE, method: { ...comparison(['Interface (older form)', '接口（旧格式）']), when: () => false }, api: API }, [['service', 'namespace'], ['api'], ['method']]),
        needs: [{ title: ['Service', '服务'], sides: [['service']] }],
      },
    },
    protocol: { title: ['Protocol', '协议'], choices: { UNKNOWN: ['Not set', '未设置'], HTTP: ['HTTP', 'HTTP'], TCP: ['TCP', 'TCP'], UDP: ['UDP', 'UDP'] } },
    port: { title: ['Port', '端口'], help: ["Empty or 0: the instance's own.", '留空或 0：实例自身的端口。'], placeholder: '0' },
    interval: { title: ['Interval', '间隔'], unit: 'seconds', placeholder: '30' },
    timeout: { title: ['Timeout', '超时'], unit: 'milliseconds', placeholder: '1000' },
    httpConfig: {
      title: ['HTTP request', 'HTTP 请求'], inline: 'titled', when: ({ protocol }) => protocol === 'HTTP',
      layer: {
        ...plain({ method: { title: ['Method', '方法'], choices: { GET: ['GET', 'GET'], HEAD: ['HEAD', 'HEAD'], POST: ['POST', 'POST'] } }, url: { title: ['Path', '路径'], placeholder: '/health' }, headers: HEADERS, body: { title: ['Body', '请求体'], as: 'lines' } }, ['method', 'url', 'headers']),
        needs: [{ title: ['Path', '路径'], sides: [['url']] }],
      },
    },
    tcpConfig: exchange(['TCP exchange', 'TCP 交互'], 'TCP'),
    udpConfig: exchange(['UDP exchange', 'UDP 交互'], 'UDP'),
  },
}
