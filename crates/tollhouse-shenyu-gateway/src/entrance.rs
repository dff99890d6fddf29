//! Filters, which run before any plugin: their answers, the gateway's own pages, and the headers
//! that they add to responses. `tollhouse_shenyu::filters` contains the decisions.

use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_plugin::{Exchange, RequestContext};
use tollhouse_shenyu::answer::{Answer, Statuses};
use tollhouse_shenyu::filters::{Cross, Filters, HEALTHY, OwnPath, collapse, fallback_answer};

use crate::actuator::Actuator;
use crate::local::{self, LocalAnswer, LocalCall, LocalInterface};
use crate::reply::{CHAIN, reply};

const JSON: &[u8] = b"application/json";

/// Header with the first problem of a change that does not serve as written.
const WARNING: &str = "X-Tollhouse-Warning";

/// CORS headers for a page of another origin. They replace the node's.
pub(crate) type CrossHeaders = Vec<(&'static str, String)>;

/// Filters of a chain, and what they serve.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) filters: Filters,
    /// Handler of the gateway's own interface, if enabled.
    pub(crate) local: Option<Arc<dyn LocalInterface>>,
    /// Pages that show the objects of the chain, if enabled.
    pub(crate) actuator: Option<Actuator>,
    pub(crate) statuses: Statuses,
}

/// Adds CORS headers to any response.
pub(crate) fn add_cross_headers(headers: &CrossHeaders, cx: &mut ResponseContext<'_>) {
    for (name, value) in headers {
        cx.set_header(name, value.as_bytes());
    }
    // A shared cache must not serve one page's headers to another.
    cx.add_header("Vary", b"Origin");
}

impl Entrance {
    /// Whether a filter answers requests for a path.
    pub(crate) fn is_taken(&self, path: &str) -> bool {
        let collapsed = self.collapse(path);
        self.filters.taken(collapsed.as_deref().unwrap_or(path)).is_some()
    }

    /// Returns the path without repeated slashes, if they are to be collapsed and there are any.
    pub(crate) fn collapse(&self, path: &str) -> Option<String> {
        self.filters.collapse_slashes.then(|| collapse(path)).flatten()
    }

    /// Whether a filter may act on a request for other reasons than its path, so that the chain
    /// must run.
    pub(crate) fn concerns(&self, exchange: &dyn Exchange) -> bool {
        (self.filters.cross.is_some() && exchange.client_header(b"origin").is_some())
            || (self.filters.file_bytes_max > 0 && is_form_with_files(exchange))
    }

    /// Returns the CORS headers for the page that sends a request; `None` if the page is of the
    /// same origin.
    pub(crate) fn cross_headers(&self, exchange: &dyn Exchange) -> Option<CrossHeaders> {
        let cross = self.filters.cross.as_ref()?;
        let text =
            |name| exchange.client_header(name).and_then(|value| std::str::from_utf8(value).ok());
        let origin = text(b"origin")?;
        Cross::is_cross(origin, text(b"host").unwrap_or_default())
            .then(|| cross.headers_for(origin))
    }

    /// Runs the filters in order. Returns the answer of the first that answers the request.
    pub(crate) async fn filter<'o>(
        &self,
        path: &str,
        cx: &mut RequestContext<'_>,
    ) -> Option<plugin::Answer<'o>> {
        let taken = self.filters.taken(path);
        if taken == Some(OwnPath::Local) {
            return Some(self.call_local(path, cx).await);
        }
        if self.cross_headers(cx.exchange()).is_some() && cx.method() == b"OPTIONS" {
            // The CORS headers are added with the response head.
            return Some(text(200, ""));
        }
        match taken {
            Some(OwnPath::Actuator(path)) => {
                let page = self.actuator.as_ref().and_then(|actuator| actuator.answer(path));
                return Some(page.unwrap_or_else(|| {
                    plugin::Answer::text(404, &b"{\"code\":404,\"message\":\"Not Found\"}"[..])
                        .with_header("Content-Type", JSON)
                }));
            }
            Some(OwnPath::Health) => return Some(text(200, HEALTHY)),
            Some(OwnPath::Excluded) => return Some(text(200, "")),
            Some(OwnPath::Fallback(path)) => {
                let body = fallback_answer(path).ok_or(Answer::InvocationFailed);
                return Some(body.map_or_else(|it| self.refused(it), |body| text(200, &body)));
            }
            Some(OwnPath::Local) | None => {}
        }
        if self.filters.file_bytes_max > 0
            && is_form_with_files(cx.exchange())
            && is_too_large(self.filters.file_bytes_max, cx).await
        {
            return Some(self.refused(Answer::PayloadTooLarge));
        }
        None
    }

    /// Returns the gateway's own page at a path that a rule redirects to; `None` if the path has
    /// none.
    pub(crate) async fn own_page<'o>(
        &self,
        uri: &str,
        cx: &mut RequestContext<'_>,
    ) -> Option<plugin::Answer<'o>> {
        let path = uri.split('?').next().unwrap_or_default();
        if self.filters.taken(path) == Some(OwnPath::Local) {
            return Some(self.call_local(uri, cx).await);
        }
        self.actuator.as_ref().and_then(|actuator| actuator.answer(path))
    }

    /// Calls the gateway's own interface. `uri` is the path, with a query if it is not that of the
    /// request.
    async fn call_local<'o>(&self, uri: &str, cx: &mut RequestContext<'_>) -> plugin::Answer<'o> {
        // The key is checked before the body is read.
        let key = cx.exchange().client_header(b"localkey").unwrap_or_default();
        let is_known = self.filters.local_key.as_ref().is_some_and(|known| known.is_of(key));
        let Some(local) = self.local.as_ref().filter(|_| is_known) else {
            return self.refused(Answer::LocalKeyIncorrect);
        };
        if cx.read_body(local::BODY_BYTES_MAX).await.is_err() {
            return self.refused(Answer::RequestTooLarge);
        }
        let asked = || String::from_utf8_lossy(cx.query().unwrap_or_default()).into_owned();
        let (path, query) = match uri.split_once('?') {
            Some((path, query)) => (path, query.to_owned()),
            None => (uri, asked()),
        };
        let call = LocalCall {
            method: String::from_utf8_lossy(cx.method()).into_owned(),
            path: path.to_owned(),
            query,
            body: cx.body().to_vec(),
        };
        let LocalAnswer { status, body, warning } = local.call(call).await;
        let kind =
            if body.starts_with(['{', '[']) { JSON } else { &b"text/plain;charset=UTF-8"[..] };
        let answer =
            plugin::Answer::text(status, body.into_bytes()).with_header("Content-Type", kind);
        match warning {
            Some(warning) => answer.with_header(WARNING, without_controls(&warning)),
            None => answer,
        }
    }

    fn refused<'o>(&self, answer: Answer) -> plugin::Answer<'o> {
        reply(answer, None, self.statuses).by(CHAIN)
    }
}

/// Returns the pages that exist without filters.
pub(crate) fn built_in_page<'o>(uri: &str) -> Option<plugin::Answer<'o>> {
    let path = uri.split('?').next().unwrap_or_default();
    let is_health = path == "/actuator/health";
    let body = if is_health { Some(HEALTHY.to_owned()) } else { fallback_answer(path) }?;
    Some(text(200, &body))
}

/// Replaces control characters, which a header line may not contain.
fn without_controls(text: &str) -> Vec<u8> {
    text.bytes().map(|byte| if byte < b' ' || byte == 0x7f { b' ' } else { byte }).collect()
}

fn text<'o>(status: u16, body: &str) -> plugin::Answer<'o> {
    if body.is_empty() {
        return plugin::Answer::status(status);
    }
    plugin::Answer::text(status, body.as_bytes().to_vec()).with_header("Content-Type", JSON)
}

fn is_form_with_files(exchange: &dyn Exchange) -> bool {
    exchange.client_header(b"content-type").is_some_and(|kind| {
        let kind = kind.trim_ascii_start();
        kind.get(..10).is_some_and(|start| start.eq_ignore_ascii_case(b"multipart/"))
    })
}

/// Whether the body exceeds a limit, by its declared length. A body of unknown length is buffered
/// until it ends or exceeds the limit.
async fn is_too_large(bytes_max: u64, cx: &mut RequestContext<'_>) -> bool {
    let declared = cx.exchange().client_header(b"content-length");
    let declared =
        declared.and_then(|length| std::str::from_utf8(length).ok()?.trim().parse().ok());
    match declared {
        Some(length) => bytes_max < length,
        None => cx.read_body(bytes_max).await.is_err(),
    }
}
