//! Calls to functions of cloud services in the place of a node: the part that all such plugins
//! share. Each plugin adds its own credentials.

use std::time::Duration;

use bytes::Bytes;
use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{Answer, AnswerBody, ConfError, RefusalKind, RequestContext};

use crate::http_client::{Call, ClientError, HttpClient, Repeat, Reply, Reuse, Target};
use crate::shared::confs::defaults::{default_true, defaults};

/// Fields of answers that belong to the connection or that the gateway writes itself.
const DROPPED_OF_ANSWERS: [&str; 11] = [
    "connection",
    "content-length",
    "date",
    "keep-alive",
    "proxy-connection",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "proxy-authenticate",
];

/// Name of the variable part of a route's path that `*` stands for.
const REMAINDER: &str = ":ext";

/// Configuration of the connection to a function.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct ConnectionFields {
    /// Whether the service's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Whether connections to the service are reused; on by default.
    #[serde(default = "default_true")]
    pub keepalive: bool,
    /// Time after which an idle connection is closed, in milliseconds; 60000 by default.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
    /// Number of idle connections that each core keeps at most; 5 by default.
    #[serde(default = "default_keepalive_pool")]
    #[schemars(range(min = 1))]
    pub keepalive_pool: u64,
    /// Longest body of a request, in bytes; 64 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

defaults! {
    default_keepalive_timeout: u64 = 60_000;
    default_keepalive_pool: u64 = 5;
    default_body_bytes_max: u64 = 64 << 20;
}

/// Returns the default timeout for an answer, in milliseconds.
pub(crate) fn default_timeout() -> u64 {
    3_000
}

impl ConnectionFields {
    /// Returns a client for `target` with this timeout in milliseconds.
    pub(crate) fn client(&self, timeout_ms: u64, target: &Target) -> HttpClient {
        let idle = Duration::from_millis(self.keepalive_timeout);
        let connections_max = usize::try_from(self.keepalive_pool).unwrap_or(usize::MAX);
        let reuse =
            if self.keepalive { Reuse::For { idle, connections_max } } else { Reuse::Never };
        let client =
            HttpClient::new(Duration::from_millis(timeout_ms), self.ssl_verify.into(), reuse);
        client.prepared_for(target)
    }
}

/// Address of a function, with the client for its server.
#[derive(Debug)]
pub(crate) struct Function {
    target: Target,
    client: HttpClient,
    body_bytes_max: u64,
}

impl Function {
    /// Compiles the address of a function.
    ///
    /// # Errors
    /// If the address is invalid.
    pub(crate) fn new(
        uri: &str,
        timeout_ms: u64,
        connection: &ConnectionFields,
    ) -> Result<Self, ConfError> {
        let target = Target::parse(uri)
            .map_err(|error| ConfError::in_field("function_uri", error.to_string()))?;
        let client = connection.client(timeout_ms, &target);
        Ok(Self { target, client, body_bytes_max: connection.max_req_body_size })
    }

    /// Sends the client's request to the function and returns its answer. `sign` adds credentials
    /// to the call.
    pub(crate) async fn forward<'a>(
        &self,
        cx: &mut RequestContext<'_>,
        sign: impl FnOnce(&mut Call),
    ) -> Answer<'a> {
        if cx.read_body(self.body_bytes_max).await.is_err() {
            return Answer::status(400).refused(RefusalKind::RequestInvalid);
        }
        let mut call = self.call(cx);
        sign(&mut call);
        match self.client.send(&self.target, call).await {
            Ok(reply) if cx.method() == b"HEAD" => {
                let length = reply.values("Content-Length").next().and_then(number);
                Answer { body: AnswerBody::LeftOut(length), ..answer_of(reply) }
            }
            Ok(reply) => answer_of(reply),
            Err(error) => failure(&error),
        }
    }

    fn call(&self, cx: &RequestContext<'_>) -> Call {
        let mut headers = vec![("Host".to_owned(), self.target.authority.clone().into_bytes())];
        cx.each_header(&mut |name, value| {
            let name = String::from_utf8_lossy(name);
            if !name.eq_ignore_ascii_case("host") {
                headers.push((name.into_owned(), value.to_vec()));
            }
        });
        Call {
            method: cx.method().to_vec(),
            path: self.path(cx),
            headers,
            body: Bytes::copy_from_slice(cx.body()),
            repeat: Repeat::ByMethod,
        }
    }

    /// Returns the path of the function, followed by the part of the client's path that the route's
    /// `*` stands for. The query is that of the conf, then the client's.
    fn path(&self, cx: &RequestContext<'_>) -> Vec<u8> {
        let (path, own_query) = match self.target.path.split_once('?') {
            Some((path, query)) => (path, Some(query.as_bytes())),
            None => (&*self.target.path, None),
        };
        let mut out = path.as_bytes().to_vec();
        let remainder = Variable::UriParam(REMAINDER.into());
        if let Some(rest) = cx.variables().variable(&remainder).filter(|rest| !rest.is_empty()) {
            if !out.ends_with(b"/") && !rest.starts_with(b"/") {
                out.push(b'/');
            }
            tollhouse_router::escape_into(&rest, &mut out);
        }
        let queries = own_query.into_iter().chain(cx.query());
        for (index, query) in queries.filter(|query| !query.is_empty()).enumerate() {
            out.push(if index == 0 { b'?' } else { b'&' });
            out.extend_from_slice(query);
        }
        out
    }
}

/// Sets a header of a call unless the client has sent it or the value is empty.
pub(crate) fn set_if_absent(call: &mut Call, name: &str, value: &str) {
    let is_sent = has_header(call, name);
    if !is_sent && !value.is_empty() {
        call.headers.push((name.to_owned(), value.as_bytes().to_vec()));
    }
}

pub(crate) fn has_header(call: &Call, name: &str) -> bool {
    call.headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

fn answer_of<'a>(reply: Reply) -> Answer<'a> {
    let mut answer = Answer::status(reply.status);
    for (name, value) in &reply.headers {
        if !DROPPED_OF_ANSWERS.contains(&name.as_str()) {
            answer = answer.with_header(name.as_str().to_owned(), value.as_bytes().to_vec());
        }
    }
    answer.body = AnswerBody::Shared(reply.body);
    answer
}

/// Returns the answer to a client if the service does not answer.
pub(crate) fn failure<'a>(error: &ClientError) -> Answer<'a> {
    tracing::warn!(%error, "a function gives no answer");
    let kind = match error {
        ClientError::Timeout => RefusalKind::UpstreamTimedOut,
        _ => RefusalKind::UpstreamFailed,
    };
    Answer::status(503).refused(kind)
}
