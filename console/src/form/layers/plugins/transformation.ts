/** Layers of plugins that change requests and answers. */
import { plain } from '../layer'
import type { PluginLayer } from './plugin-layer'

export const transformation: Record<string, PluginLayer> = {
  'proxy-rewrite': {
    layer: plain({
      uri: { title: ['New path', '新路径'], placeholder: '/v2/orders' }, regex_uri: { title: ['Pattern and replacement', '模式与替换'], help: ['Two lines: a regular expression for the path, and what it becomes ($1 is the first group).', '两项：匹配路径的正则表达式及其替换（$1 为第一个分组）。'] },
      host: { title: ['New host', '新主机'] }, headers: { title: ['Headers', '请求头'] },
    }, [{ choice: ['Path', '路径'], sides: [{ title: ['Fixed', '固定'], fields: ['uri'] }, { title: ['By pattern', '按模式'], fields: ['regex_uri'] }] }, 'headers', 'host']),
  },
  'response-rewrite': { layer: plain({ status_code: { title: ['New status', '新状态码'] }, headers: { title: ['Headers', '应答头'] }, body: { title: ['New body', '新应答体'], as: 'lines' } }) },
  redirect: {
    layer: plain({
      http_to_https: { title: ['Redirect HTTP to HTTPS', '将 HTTP 重定向到 HTTPS'] }, uri: { title: ['To', '目标'], placeholder: '/new$uri' }, regex_uri: { title: ['Pattern and replacement', '模式与替换'] },
      ret_code: { title: ['Status', '状态码'], choices: { 301: ['301 moved permanently', '301 永久移动'], 302: ['302 found', '302 临时移动'], 307: ['307 temporary, same method', '307 临时，保持方法'], 308: ['308 permanent, same method', '308 永久，保持方法'] } },
    }, [{ choice: ['Redirect', '重定向'], sides: [{ title: ['To an address', '到地址'], fields: ['uri'] }, { title: ['By pattern', '按模式'], fields: ['regex_uri'] }, { title: ['HTTP to HTTPS', 'HTTP 到 HTTPS'], fields: ['http_to_https'] }] }, 'ret_code']),
  },
  mocking: { layer: plain({ response_status: { title: ['Status', '状态码'] }, content_type: { title: ['Content type', '内容类型'] }, response_example: { title: ['Body', '应答体'], as: 'lines' } }) },
  'fault-injection': {
    layer: plain({
      abort: { title: ['Answer with an error', '返回错误'], layer: plain({ http_status: { title: ['Status', '状态码'], placeholder: '503' }, body: { title: ['Body', '应答体'] }, percentage: { title: ['Share of requests', '请求比例'], unit: 'percent' } }) },
      delay: { title: ['Delay', '延迟'], layer: plain({ duration: { title: ['For', '时长'], unit: 'seconds' }, percentage: { title: ['Share of requests', '请求比例'], unit: 'percent' } }) },
    }),
  },
  gzip: { layer: plain({ types: { title: ['Content types', '内容类型'] }, min_length: { title: ['From', '最小长度'], unit: 'bytes' }, comp_level: { title: ['Level', '压缩级别'] } }) },
  brotli: { layer: plain({ types: { title: ['Content types', '内容类型'] }, min_length: { title: ['From', '最小长度'], unit: 'bytes' }, comp_level: { title: ['Level', '压缩级别'] } }) },
  'grpc-transcode': { layer: plain({ proto_id: { title: ['Proto', 'Proto'], of: 'protos' }, service: { title: ['Service', '服务'], placeholder: 'shop.Orders' }, method: { title: ['Method', '方法'], placeholder: 'Get' } }) },
  'request-id': { layer: plain({ header_name: { title: ['Header', '请求头'] }, algorithm: { title: ['Type of ID', 'ID 类型'] }, include_in_response: { title: ['Also in the response', '应答中也包含'] } }) },
}
