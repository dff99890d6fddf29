/** Layer of upstreams, also of those inside routes and services. */
import { DESC, LABELS, NAME, NOTES, plain, type Layer, type Look } from './layer'

export const TIMEOUT: Look = {
  title: ['Timeouts', '超时'],
  help: ['60 s each when empty.', '留空则各为 60 秒。'],
  isRow: true,
  inline: 'titled',
  layer: plain({
    connect: { title: ['Connect', '连接'], help: ['Until a connection to a node is open.', '与节点建立连接的时限。'], unit: 'seconds', placeholder: '60' },
    send: { title: ['Send', '发送'], help: ['Between two writes to the node.', '两次写入之间的时限。'], unit: 'seconds', placeholder: '60' },
    read: { title: ['Read', '读取'], help: ['Between two reads from the node.', '两次读取之间的时限。'], unit: 'seconds', placeholder: '60' },
  }),
}

const STATUSES: Look = { title: ['HTTP statuses', 'HTTP 状态码'] }

const ACTIVE: Layer = plain({
  type: { title: ['Probe', '探测方式'], choices: { http: ['HTTP request', 'HTTP 请求'], https: ['HTTPS request', 'HTTPS 请求'], tcp: ['TCP connection', 'TCP 连接'], grpc: ['gRPC health check', 'gRPC 健康检查'], grpcs: ['gRPC health check over TLS', 'TLS 上的 gRPC 健康检查'] } },
  http_path: { title: ['Path', '路径'], placeholder: '/health', when: ({ type }) => type === undefined || String(type).startsWith('http') },
  timeout: { title: ['Probe timeout', '探测超时'], unit: 'seconds' },
  healthy: {
    title: ['Healthy again when', '恢复健康的条件'],
    layer: plain({
      interval: { title: ['Probe every', '探测间隔'], unit: 'seconds' }, successes: { title: ['Successes in a row', '连续成功次数'] }, http_statuses: STATUSES,
    }),
  },
  unhealthy: {
    title: ['Unhealthy when', '判为不健康的条件'],
    layer: plain({
      interval: { title: ['Probe every', '探测间隔'], unit: 'seconds' }, http_failures: { title: ['Failed responses in a row', '连续失败应答次数'] },
      tcp_failures: { title: ['Failed connections in a row', '连续连接失败次数'] }, timeouts: { title: ['Timeouts in a row', '连续超时次数'] }, http_statuses: STATUSES,
    }),
  },
})

const PASSIVE: Layer = plain({
  type: { title: ['Judge', '判断依据'] },
  unhealthy: {
    title: ['Unhealthy when', '判为不健康的条件'],
    layer: plain({
      http_failures: { title: ['Failed responses in a row', '连续失败应答次数'] }, tcp_failures: { title: ['Failed connections in a row', '连续连接失败次数'] },
      timeouts: { title: ['Timeouts in a row', '连续超时次数'] }, http_statuses: STATUSES,
    }),
  },
  healthy: { title: ['Healthy again when', '恢复健康的条件'], layer: plain({ successes: { title: ['Successes in a row', '连续成功次数'] }, http_statuses: STATUSES }) },
})

const isDiscovered = (fields: Record<string, unknown>) => 'service_name' in fields || 'discovery_type' in fields

/** Fields of an upstream, wherever it is written. */
const FIELDS: Layer['fields'] = {
  name: NAME,
  desc: DESC,
  labels: LABELS,
  nodes: { title: ['Nodes', '节点'], help: ['Servers that requests are sent to. A weight of 0 takes a node out.', '请求发往的服务器。权重为 0 时不再接收请求。'], as: 'nodes' },
  service_name: { title: ['Service', '服务名'], help: ['A DNS name, or namespace/service of the registry.', 'DNS 名称，或注册中心的 命名空间/服务。'], placeholder: 'default/orders' },
  discovery_type: { title: ['Found by', '发现方式'], choices: { registry: ['Tollhouse registry', 'Tollhouse 注册中心'], dns: ['DNS', 'DNS'], consul: ['Consul', 'Consul'], consul_kv: ['Consul keys', 'Consul 键值'], nacos: ['Nacos', 'Nacos'], eureka: ['Eureka', 'Eureka'], kubernetes: ['Kubernetes', 'Kubernetes'], polaris: ['Polaris registry', 'Polaris 注册中心'] } },
  discovery_args: {
    title: ['Only these instances', '仅限这些实例'],
    layer: plain({ metadata: { title: ['Metadata', '元数据'] }, version: { title: ['Version', '版本'] }, namespace_id: { title: ['Namespace', '命名空间'] }, group_name: { title: ['Group', '分组'] } }),
    when: isDiscovered,
  },
  type: {
    title: ['Load balancing', '负载均衡'],
    choices: { roundrobin: ['Round robin, by weight', '按权重轮询'], chash: ['Consistent hashing', '一致性哈希'], least_conn: ['Fewest requests in flight', '最少活动请求'], ewma: ['Shortest response time', '最快响应'] },
  },
  hash_on: {
    title: ['Hash of', '哈希来源'], when: ({ type }) => type === 'chash',
    choices: { vars: ['A variable', '变量'], header: ['A header', '请求头'], cookie: ['A cookie', 'Cookie'], consumer: ['The consumer', '消费者'], vars_combinations: ['Several variables', '多个变量'] },
  },
  key: { title: ['Hash key', '哈希键'], placeholder: 'remote_addr', when: ({ type }) => type === 'chash' },
  scheme: {
    title: ['Protocol', '协议'],
    choices: { http: ['HTTP', 'HTTP'], https: ['HTTPS', 'HTTPS'], grpc: ['gRPC', 'gRPC'], grpcs: ['gRPC over TLS', 'TLS 上的 gRPC'], tcp: ['TCP', 'TCP'], tls: ['TLS', 'TLS'], udp: ['UDP', 'UDP'], kafka: ['Kafka', 'Kafka'] },
  },
  http_version: { title: ['HTTP version', 'HTTP 版本'], help: ['For HTTP and HTTPS nodes; 1.1 when empty.', '用于 HTTP 和 HTTPS 节点，留空为 1.1。'] },
  pass_host: { title: ['Host header', 'Host 请求头'], choices: { pass: ["The client's", '保持客户端的'], node: ["The node's name", '节点的名称'], rewrite: ['A fixed name', '固定名称'] } },
  upstream_host: { title: ['Fixed host', '固定 Host'], placeholder: 'orders.internal', when: ({ pass_host }) => pass_host === 'rewrite' },
  proxy_protocol: { title: ['PROXY header', 'PROXY 头'], help: ['Tells nodes the address of the client; each connection then serves one client.', '告知节点客户端地址；此时一条连接只服务一个客户端。'] },
  retries: { title: ['Retries', '重试次数'], help: ['Further attempts after the first. Empty: one per further node.', '首次之后的尝试次数。留空：每个其余节点一次。'] },
  retry_timeout: { title: ['Retry within', '重试时限'], help: ['0 is without limit.', '0 表示不限。'], unit: 'seconds' },
  timeout: TIMEOUT,
  keepalive_pool: {
    isRow: true,
    title: ['Connection pool', '保持的连接'],
    layer: plain({ size: { title: ['Idle connections', '空闲连接数'] }, idle_timeout: { title: ['Idle for at most', '最长空闲'], unit: 'seconds' }, requests: { title: ['Requests per connection', '每连接请求数'] } }),
  },
  tls: {
    title: ['TLS to nodes', '到节点的 TLS'],
    layer: {
      sections: [{ title: ['', ''], items: [
        'verify', 'ca',
        { choice: ['Client certificate', '客户端证书'], sides: [{ title: ['A stored one', '已保存的证书'], fields: ['client_cert_id'] }, { title: ['Paste it here', '在此粘贴'], fields: ['client_cert', 'client_key'] }] },
      ] }],
      fields: {
        verify: { title: ['Verify certificates of nodes', '验证节点证书'] },
        ca: { title: ['Trusted authorities', '受信任的 CA'], help: ['Replaces the authorities of the system for these nodes.', '仅对这些节点代替系统 CA。'], as: 'pem' },
        client_cert_id: { title: ['Certificate', '证书'], of: 'ssls' },
        client_cert: { title: ['Certificate chain', '证书链'], as: 'pem' },
        client_key: { title: ['Private key', '私钥'], as: 'pem' },
      },
    },
  },
  checks: {
    title: ['Health checks', '健康检查'],
    inline: 'bare',
    layer: plain({
      active: { title: ['Active checks', '主动检查'], help: ['Requests that the gateway sends to each node.', '网关向每个节点发送的探测。'], layer: ACTIVE },
      passive: { title: ['Passive checks', '被动检查'], help: ['Judges nodes by their responses to requests of clients.', '根据节点对客户端的应答判断。'], layer: PASSIVE },
    }),
  },
  warm_up_conf: {
    isRow: true,
    title: ['Slow start', '慢启动'], help: ['How the share of a new node rises.', '新节点份额的上升方式。'],
    layer: plain({
      slow_start_time_seconds: { title: ['Full share after', '达到全部份额'], unit: 'seconds' }, min_weight_percent: { title: ['Begin with', '起始份额'], unit: 'percent' },
      interval: { title: ['Step every', '步进间隔'], unit: 'seconds' }, aggression: { title: ['Curve', '曲线'], help: ['1 is a straight line; more rises faster at first.', '1 为直线，越大开始越快。'] },
      startup_grace_period_seconds: { title: ['Not in the first', '启动宽限'], unit: 'seconds' },
    }),
  },
}

const TARGET: Layer['sections'][number]['items'] = [
  { choice: ['Nodes come from', '节点来源'], sides: [{ title: ['A list', '列表'], fields: ['nodes'] }, { title: ['Service discovery', '服务发现'], fields: ['discovery_type', 'service_name'] }] },
  'discovery_args', 'type', 'hash_on', 'key', 'scheme',
]

const FURTHER: Layer['sections'] = [
  { title: ['Timeouts and retries', '超时与重试'], items: ['timeout', 'retries', 'retry_timeout'], isFolded: true },
  { title: ['Health checks', '健康检查'], items: ['checks'], isFolded: true },
  { title: ['Host, TLS and connections', 'Host、TLS 与连接'], items: ['pass_host', 'upstream_host', 'http_version', 'tls', 'keepalive_pool', 'proxy_protocol', 'warm_up_conf'], isFolded: true },
]

const NEEDS: Layer['needs'] = [{ title: ['Nodes', '节点'], sides: [['nodes'], ['service_name', 'discovery_type']] }]

export const upstream: Layer = {
  needs: NEEDS,
  sections: [
    { title: ['General', '基本'], items: ['name'] },
    { title: ['Nodes', '节点'], note: ['Where requests go, and how a node is chosen.', '请求发往何处，以及如何选择节点。'], items: TARGET },
    ...FURTHER,
    NOTES,
  ],
  fields: FIELDS,
}

/** An upstream that is written inside of another object; it needs no name. */
export const inlineUpstream: Layer = { needs: NEEDS, sections: [{ title: ['', ''], items: TARGET }, ...FURTHER], fields: FIELDS }
