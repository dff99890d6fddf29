//! Sends a copy of each request, or of a sample, to another server, whose answers are ignored.
//!
//! The copy has the method, the headers and the body that the node gets. The client's answer never
//! waits for the copy.
//!
//! # Example
//! ```json
//! {"host": "http://127.0.0.1:1999", "path": "/shadow", "sample_ratio": 0.1}
//! ```
//!
//! # Answers
//! None, except 413 when a chunked body exceeds 64 MiB.
//!
//! # Notes
//! A request with a body waits until the whole body has arrived, because both servers need it. At
//! most 1,024 copies with 256 MiB of bodies are in progress; further requests are not copied. The
//! timeout of a copy is `plugin_attr.proxy-mirror.timeout` of the bootstrap file. Copies use
//! HTTP/1.1. A `grpc://` host is accepted, but gets no copies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tollhouse_plugin::{
    Answer, BodyError, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Services, Step,
};

use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};
use crate::shared::confs::defaults::defaults;
use crate::shared::dial::Verification;

/// Largest number of copies in progress.
const COPIES_MAX: u64 = 1_024;
/// Largest size of their bodies together, in bytes.
const COPIES_BYTES_MAX: u64 = 256 << 20;
/// Maximum length in bytes of a body that is copied.
const BODY_BYTES_MAX: u64 = 64 << 20;
/// Timeout of a copied request, by default.
const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);
/// Maximum duration for which an idle connection is kept.
const IDLE_MAX: Duration = Duration::from_secs(60);
/// Maximum number of idle connections that each core keeps.
const CONNECTIONS_MAX: usize = 32;

const HOST_PATTERN: &str = r"^(http(s)?|grpc(s)?):\/\/([\da-zA-Z.-]+|\[[\da-fA-F:]+\])(:\d+)?$";
const PATH_PATTERN: &str = r"^/[^?&]+$";

/// Configuration of `proxy-mirror`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Server that gets the copies: scheme, host and port.
    #[schemars(regex(pattern = HOST_PATTERN))]
    pub host: String,
    /// Path of copies. Unset: the path of the request.
    #[schemars(regex(pattern = PATH_PATTERN))]
    pub path: Option<String>,
    /// Use of `path`: in place of the request's path (`replace`, the default) or before it
    /// (`prefix`).
    #[serde(default)]
    pub path_concat_mode: PathConcatMode,
    /// Fraction of requests that are copied; 1 (all of them) by default.
    #[serde(default = "default_sample_ratio")]
    #[schemars(range(min = 0.00001, max = 1))]
    pub sample_ratio: f64,
}

/// Use of the conf's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PathConcatMode {
    #[default]
    Replace,
    Prefix,
}

defaults! {
    default_sample_ratio: f64 = 1.0;
}

#[derive(Debug)]
pub struct ProxyMirror {
    /// `None` for servers that do not support HTTP/1.1.
    target: Option<Arc<Target>>,
    client: HttpClient,
    path: Option<String>,
    mode: PathConcatMode,
    sample_ratio: f64,
    copies: Arc<Copies>,
}

/// Copies in progress in the whole process.
#[derive(Debug, Default)]
struct Copies {
    count: AtomicU64,
    bytes: AtomicU64,
}

/// Share of one copy in the limits; released on drop.
struct Ticket {
    copies: Arc<Copies>,
    bytes: u64,
}

impl Copies {
    fn admit(self: &Arc<Self>, bytes: u64) -> Option<Ticket> {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let all_bytes = self.bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let ticket = Ticket { copies: Arc::clone(self), bytes };
        (count <= COPIES_MAX && all_bytes <= COPIES_BYTES_MAX).then_some(ticket)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.copies.count.fetch_sub(1, Ordering::Relaxed);
        self.copies.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Plugin for ProxyMirror {
    const NAME: &'static str = "proxy-mirror";
    const PRIORITY: i32 = 1010;
    const CATEGORY: Category = Category::Traffic;
    const PHASES: Phases = Phases::BEFORE_PROXY;
    type Config = Config;

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let reuse = Reuse::For { idle: IDLE_MAX, connections_max: CONNECTIONS_MAX };
        let mut client = HttpClient::new(timeout(scope.services), Verification::Off, reuse);
        let is_grpc = config.host.starts_with("grpc");
        let target = match Target::parse(&config.host) {
            _ if is_grpc => None,
            Ok(target) => Some(Arc::new(target)),
            Err(error) => return Err(ConfError::from(error.to_string()).at("host")),
        };
        if let Some(target) = &target {
            client = client.prepared_for(target);
        }
        Ok(Self {
            target,
            client,
            path: config.path,
            mode: config.path_concat_mode,
            sample_ratio: config.sample_ratio,
            copies: scope.keep("proxy-mirror", Copies::default),
        })
    }

    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if !self.is_sampled(cx.random()) || self.target.is_none() {
            return Step::Continue;
        }
        match body_of(cx) {
            Body::None => {
                self.copy(cx, Bytes::new());
                Step::Continue
            }
            Body::TooLong => Step::Continue,
            Body::Some => Step::wait(async move {
                match cx.read_body(BODY_BYTES_MAX).await {
                    Ok(body) => {
                        let body = Bytes::copy_from_slice(body);
                        self.copy(cx, body);
                        Flow::Continue
                    }
                    Err(BodyError::TooLarge) => {
                        Answer::status(413).refused(RefusalKind::RequestInvalid).into()
                    }
                    Err(BodyError::Broken) => {
                        Answer::status(400).refused(RefusalKind::RequestInvalid).into()
                    }
                }
            }),
        }
    }
}

/// Length of a request's body, as far as the head tells.
enum Body {
    None,
    Some,
    TooLong,
}

fn body_of(cx: &mut RequestContext<'_>) -> Body {
    if cx.edits().body.is_some() || cx.header("transfer-encoding").is_some() {
        return Body::Some;
    }
    let length = cx.header("content-length");
    match length.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse::<u64>().ok()) {
        None | Some(0) => Body::None,
        Some(bytes) if bytes > BODY_BYTES_MAX => Body::TooLong,
        Some(_) => Body::Some,
    }
}

/// Returns the longest of the three timeouts in the bootstrap file.
fn timeout(services: &Services) -> Duration {
    let times = services.attribute("proxy-mirror", "timeout").and_then(Value::as_object);
    let times = times.into_iter().flatten().filter_map(|(_, time)| match time {
        Value::String(text) => tollhouse_stdx::duration::parse(text).ok(),
        Value::Number(seconds) => seconds.as_u64().map(Duration::from_secs),
        _ => None,
    });
    times.max().unwrap_or(TIMEOUT_DEFAULT)
}

impl ProxyMirror {
    fn is_sampled(&self, random: u64) -> bool {
        // The upper 53 bits make an exact fraction below 1.
        let fraction = (random >> 11) as f64 / (1_u64 << 53) as f64;
        fraction < self.sample_ratio
    }

    /// Starts a copy, which runs in a separate task.
    fn copy(&self, cx: &mut RequestContext<'_>, body: Bytes) {
        let Some(target) = self.target.clone() else { return };
        let Some(ticket) = self.copies.admit(body.len() as u64) else {
            tracing::debug!("too many mirrored requests are under way; one is left out");
            return;
        };
        let call = self.call(cx, body);
        let client = self.client.clone();
        tokio::spawn(async move {
            if let Err(error) = client.send(&target, call).await {
                tracing::debug!(%error, server = target.authority, "a mirrored request failed");
            }
            drop(ticket);
        });
    }

    fn call(&self, cx: &mut RequestContext<'_>, body: Bytes) -> Call {
        let edits = cx.edits();
        let (edited_host, edited_uri) =
            (edits.host.clone(), edits.upstream_uri().map(<[u8]>::to_vec));
        let method = edits.method.map(|method| method.as_bytes().to_vec());
        let mut headers = Vec::new();
        cx.each_node_header(&mut |name, value| {
            let is_host = name.eq_ignore_ascii_case(b"host");
            if let (false, Ok(name)) = (is_host, std::str::from_utf8(name)) {
                headers.push((name.to_owned(), value.to_vec()));
            }
        });
        let host = edited_host.or_else(|| Some(cx.header("host")?.into_owned()));
        headers.extend(host.map(|host| ("Host".to_owned(), host)));
        let uri = edited_uri.unwrap_or_else(|| cx.real_request_uri().into_owned());
        Call {
            method: method.unwrap_or_else(|| cx.method().to_vec()),
            path: self.path(&uri),
            headers,
            body,
            repeat: Repeat::ByMethod,
        }
    }

    fn path(&self, uri: &[u8]) -> Vec<u8> {
        let Some(path) = &self.path else { return uri.to_vec() };
        let query = uri.iter().position(|&byte| byte == b'?').unwrap_or(uri.len());
        match self.mode {
            PathConcatMode::Replace => [path.as_bytes(), &uri[query..]].concat(),
            PathConcatMode::Prefix => [path.as_bytes(), uri].concat(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tollhouse_plugin::testing::{FakeExchange, Harness, configure};
    use tollhouse_plugin::{Memory, NoConsumers};

    use super::*;
    use crate::shared::test_server::{TestServer, body, header};

    /// Sends requests through the plugin on a runtime that runs until `seen` has received its
    /// copies.
    fn mirror(conf: &Value, requests: &mut [FakeExchange], seen: impl FnOnce()) {
        let services = Arc::new(Services::new("APISIX/3.18.0"));
        let handler = configure::<ProxyMirror>(conf, &services).expect("the conf is good");
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            for request in requests {
                let mut memory = Memory::default();
                let mut cx = RequestContext::new(request, &NoConsumers, &mut memory);
                let flow = match handler.before_proxy(&mut cx) {
                    Step::Wait(future) => future.await,
                    _ => Flow::Continue,
                };
                assert!(matches!(flow, Flow::Continue));
            }
        });
        seen();
    }

    #[test]
    fn the_copy_is_the_request_as_the_node_gets_it() {
        let server = TestServer::ok();
        let mut request = FakeExchange::parse(
            "POST /a?b=c HTTP/1.1\nHost: a.com\nContent-Length: 5\nX-A: 1\nX-Gone: 1\n\nhello",
            0,
        );
        request.edits.headers.set("X-B", b"2");
        request.edits.headers.remove("X-Gone");
        mirror(&json!({"host": server.url("")}), &mut [request], || {
            let copy = server.next_request();
            assert!(copy.starts_with("POST /a?b=c HTTP/1.1\r\n"), "{copy}");
            for (name, value) in [
                ("host", Some("a.com")),
                ("x-a", Some("1")),
                ("x-b", Some("2")),
                ("x-gone", None),
                ("content-length", Some("5")),
            ] {
                assert_eq!(header(&copy, name), value, "{name}");
            }
            assert_eq!(body(&copy), "hello");
        });
    }

    #[test]
    fn a_path_replaces_or_precedes_the_requests() {
        for (fields, expected) in [
            (json!({"path": "/x"}), "GET /x?b=c "),
            (json!({"path": "/x", "path_concat_mode": "prefix"}), "GET /x/a?b=c "),
            (json!({"path_concat_mode": "prefix"}), "GET /a?b=c "),
        ] {
            let server = TestServer::ok();
            let mut conf = fields;
            conf["host"] = json!(server.url(""));
            let request = FakeExchange::parse("GET /a?b=c HTTP/1.1\n\n", 0);
            mirror(&conf, &mut [request], || {
                let copy = server.next_request();
                assert!(copy.starts_with(expected), "{copy}");
            });
        }
    }

    #[test]
    fn a_rewritten_request_is_copied_as_rewritten() {
        let server = TestServer::ok();
        let mut request = FakeExchange::parse("GET /a HTTP/1.1\n\n", 0);
        request.edits.set_upstream_uri(b"/new?x=1");
        request.edits.method = Some("PUT");
        request.edits.host = Some(b"b.com".to_vec());
        mirror(&json!({"host": server.url("")}), &mut [request], || {
            let copy = server.next_request();
            assert!(copy.starts_with("PUT /new?x=1 HTTP/1.1\r\n"), "{copy}");
            assert_eq!(header(&copy, "host"), Some("b.com"));
        });
    }

    #[test]
    fn a_sample_is_copied() {
        let server = TestServer::ok();
        let mut requests: Vec<FakeExchange> =
            (0..4).map(|n| FakeExchange::parse(&format!("GET /{n} HTTP/1.1\n\n"), 0)).collect();
        // Below, at and above one half, and the largest number.
        for (request, random) in requests.iter_mut().zip([1 << 63, u64::MAX, 0, 1 << 62]) {
            request.random = random;
        }
        mirror(&json!({"host": server.url(""), "sample_ratio": 0.5}), &mut requests, || {
            let mut copies = [server.next_request(), server.next_request()];
            copies.sort();
            assert!(copies[0].starts_with("GET /2 ") && copies[1].starts_with("GET /3 "));
        });
    }

    #[test]
    fn copies_under_way_are_bounded() {
        let copies = Arc::new(Copies::default());
        let large = copies.admit(COPIES_BYTES_MAX).expect("room");
        assert!(copies.admit(1).is_none());
        drop(large);
        let many: Vec<_> = (0..COPIES_MAX).map_while(|_| copies.admit(0)).collect();
        assert_eq!(many.len() as u64, COPIES_MAX);
        assert!(copies.admit(0).is_none());
        drop(many);
        assert_eq!(copies.count.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn bad_confs_are_refused() {
        for (conf, inner) in [
            (json!({}), r#"property "host" is required"#),
            (json!({"host": "127.0.0.1:1999"}), r#"with "127.0.0.1:1999""#),
            (json!({"host": "http://a.com/x"}), r#"with "http://a.com/x""#),
            (json!({"host": "http://a", "path": "x"}), r#"with "x""#),
            (json!({"host": "http://a", "path": "/x?a"}), r#"with "/x?a""#),
            (json!({"host": "http://a", "sample_ratio": 10}), "expected 10 to be at most 1"),
            (
                json!({"host": "http://a", "path_concat_mode": "x"}),
                "matches none of the enum values",
            ),
        ] {
            let refusal = Harness::refusal::<ProxyMirror>(&conf);
            assert!(refusal.ends_with(inner), "{refusal}");
        }
        assert_eq!(Harness::refusal::<ProxyMirror>(&json!({"host": "grpc://a:80"})), "");
    }
}
