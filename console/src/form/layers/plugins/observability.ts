/** Layers of plugins that report. */
import { plain, type Look } from '../layer'
import type { PluginLayer } from './plugin-layer'

const BODY: Look = { title: ['Include request bodies', '包含请求体'] }
const ANSWER: Look = { title: ['Include response bodies', '包含应答体'] }
const FORMAT: Look = { title: ['Log format', '日志格式'], help: ['Names of fields with what each holds, such as host = $host.', '字段名及其内容，如 host = $host。'] }
const HOST: Look = { title: ['Host', '主机'] }
const PORT: Look = { title: ['Port', '端口'] }

export const observability: Record<string, PluginLayer> = {
  prometheus: { layer: plain({ prefer_name: { title: ['Names instead of IDs', '使用名称而非 ID'] } }) },
  'file-logger': { layer: plain({ path: { title: ['File', '文件'], placeholder: '/var/log/tollhouse/orders.log' }, include_req_body: BODY, log_format: FORMAT }) },
  'http-logger': { layer: plain({ uri: { title: ['Send to', '发送到'], placeholder: 'http://127.0.0.1:9200/logs' }, auth_header: { title: ['Authorization header', 'Authorization 请求头'] }, include_req_body: BODY, log_format: FORMAT }, ['uri', 'auth_header', 'log_format']) },
  'loki-logger': { layer: plain({ endpoint_addrs: { title: ['Addresses of Loki', 'Loki 地址'], placeholder: 'http://127.0.0.1:3100' }, log_labels: { title: ['Labels', '标签'] }, tenant_id: { title: ['Tenant', '租户'] } }) },
  'kafka-logger': {
    layer: plain({
      brokers: { title: ['Brokers', 'Broker'], layer: plain({ host: HOST, port: PORT }), isRow: true }, kafka_topic: { title: ['Topic', '主题'] }, include_req_body: BODY, include_resp_body: ANSWER,
    }, ['brokers', 'kafka_topic', 'include_req_body']),
  },
  syslog: { layer: plain({ host: HOST, port: PORT, sock_type: { title: ['Over', '传输'] } }) },
  'tcp-logger': { layer: plain({ host: HOST, port: PORT, tls: { title: ['TLS', 'TLS'] } }) },
  'udp-logger': { layer: plain({ host: HOST, port: PORT }) },
  zipkin: { start: { sample_ratio: 1 }, layer: plain({ endpoint: { title: ['Address of Zipkin', 'Zipkin 地址'], placeholder: 'http://127.0.0.1:9411/api/v2/spans' }, sample_ratio: { title: ['Share of requests', '采样比例'], help: ['1 is all of them.', '1 表示全部。'] }, service_name: { title: ['Service name', '服务名'] } }) },
  opentelemetry: { start: { sampler: { name: 'always_on' } }, layer: plain({ sampler: { title: ['Which requests', '采样'], layer: plain({ name: { title: ['Sampler', '采样器'] } }) } }) },
}
