//! Execution of ShenYu's filters, before the chain runs: their answers, and the headers that they
//! add to responses. `tollhouse_shenyu::filters` contains the decisions.

use tollhouse_plugin as plugin;
use tollhouse_plugin::response::ResponseContext;
use tollhouse_plugin::{Exchange, RequestContext};
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::filters::{Cross, Filters, HEALTHY, Taken, fallback_answer};

use crate::chain::Chain;
use crate::local::{self, LocalCall};
use crate::reply::reply;

const JSON: &[u8] = b"application/json";

/// CORS headers for a page of another origin. They replace the node's.
pub(crate) type CrossHeaders = Vec<(&'static str, String)>;

pub(crate) enum Filtered<'o> {
    /// The request goes on to the plugins.
    Passes,
    Answered(Box<plugin::Answer<'o>>),
}

/// Whether a filter may act on a request for other reasons than its path, so that the chain must
/// run.
pub(crate) fn concerns(filters: &Filters, exchange: &dyn Exchange) -> bool {
    (filters.cross.is_some() && exchange.client_header(b"origin").is_some())
        || (filters.file_bytes_max > 0 && is_form_with_files(exchange))
}

/// Returns the CORS headers for the page that sends a request; `None` if the page has the origin of
/// the request.
pub(crate) fn cross_headers(filters: &Filters, exchange: &dyn Exchange) -> Option<CrossHeaders> {
    let cross = filters.cross.as_ref()?;
    let text =
        |name| exchange.client_header(name).and_then(|value| std::str::from_utf8(value).ok());
    let origin = text(b"origin")?;
    Cross::is_cross(origin, text(b"host").unwrap_or_default()).then(|| cross.headers_for(origin))
}

/// Adds CORS headers to any response.
pub(crate) fn add_cross_headers(headers: &CrossHeaders, cx: &mut ResponseContext<'_>) {
    for (name, value) in headers {
        cx.set_header(name, value.as_bytes());
    }
    // A shared cache must not serve one page's headers to another.
    cx.add_header("Vary", b"Origin");
}

impl Chain {
    /// Runs the filters that precede all plugins, in order.
    pub(crate) async fn filter<'o>(
        &self,
        filters: &Filters,
        path: &str,
        cx: &mut RequestContext<'_>,
    ) -> Filtered<'o> {
        let taken = filters.taken(path);
        if taken == Some(Taken::Local) {
            return Filtered::Answered(Box::new(self.call_local(filters, path, cx).await));
        }
        if cross_headers(filters, cx.exchange()).is_some() && cx.method() == b"OPTIONS" {
            // The CORS headers are added with the response head.
            return text(200, "");
        }
        match taken {
            Some(Taken::Actuator(path)) => {
                let page = self.actuator.as_ref().and_then(|actuator| actuator.answer(path));
                return Filtered::Answered(Box::new(page.unwrap_or_else(|| {
                    plugin::Answer::text(404, &b"{\"code\":404,\"message\":\"Not Found\"}"[..])
                        .with_header("Content-Type", JSON)
                })));
            }
            Some(Taken::Health) => return text(200, HEALTHY),
            Some(Taken::Excluded) => return text(200, ""),
            Some(Taken::Fallback(path)) => {
                let body = fallback_answer(path);
                return body.map_or_else(
                    || self.refused(Answer::InvocationFailed),
                    |body| text(200, &body),
                );
            }
            Some(Taken::Local) | None => {}
        }
        if filters.file_bytes_max > 0
            && is_form_with_files(cx.exchange())
            && is_too_large(filters.file_bytes_max, cx).await
        {
            return self.refused(Answer::PayloadTooLarge);
        }
        Filtered::Passes
    }

    /// Does a call to the gateway's own interface; `uri` is its path, with a query if that is not the request's.
    pub(crate) async fn call_local<'o>(
        &self,
        filters: &Filters,
        uri: &str,
        cx: &mut RequestContext<'_>,
    ) -> plugin::Answer<'o> {
        let refused = |answer| reply(answer, None, self.terms.statuses);
        // The key is checked before the body is read.
        let key = cx.exchange().client_header(b"localkey").unwrap_or_default();
        let is_known = filters.local_key.as_ref().is_some_and(|known| known.is_of(key));
        let Some(local) = self.local.as_ref().filter(|_| is_known) else {
            return refused(Answer::LocalKeyIncorrect);
        };
        if cx.read_body(local::BODY_BYTES_MAX).await.is_err() {
            return refused(Answer::RequestTooLarge);
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
        let (status, body) = local.call(call).await;
        let kind =
            if body.starts_with(['{', '[']) { JSON } else { &b"text/plain;charset=UTF-8"[..] };
        plugin::Answer::text(status, body.into_bytes()).with_header("Content-Type", kind)
    }

    fn refused<'o>(&self, answer: Answer) -> Filtered<'o> {
        Filtered::Answered(Box::new(reply(answer, None, self.terms.statuses)))
    }
}

fn text<'o>(status: u16, body: &str) -> Filtered<'o> {
    let answer = plugin::Answer::text(status, body.as_bytes().to_vec());
    let answer = if body.is_empty() { answer } else { answer.with_header("Content-Type", JSON) };
    Filtered::Answered(Box::new(answer))
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
