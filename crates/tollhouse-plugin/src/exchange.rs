//! Interface of a request that the data plane offers to plugins.
//!
//! The data plane and the test harness implement it; plugins use it through
//! [`RequestContext`](crate::RequestContext).

use std::any::Any;
use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tollhouse_model::variable::Lookup;
use tollhouse_router::{NormalizeOptions, escaped_path};
use tollhouse_stdx::MemoryBudget;
use tollhouse_trace::{RequestTrace, TraceStart};

use crate::consumer::Consumer;
use crate::edits::RequestEdits;

/// Future that stays on its thread (not `Send`).
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Time of the monotonic and of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds of the monotonic clock, with an arbitrary start.
    pub monotonic_ms: u64,
    /// Wall-clock time in milliseconds since 1970.
    pub unix_ms: u64,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// The body is longer than allowed; the request is answered with 413.
    TooLarge,
    /// The client closed the connection, was too slow, or violated the framing.
    Broken,
}

/// Function that examines a body and returns its result.
pub type BodyExaminer = Box<dyn FnOnce(&[u8]) -> Box<dyn Any + Send> + Send>;

/// Kind of object that belongs to the matched route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedObject {
    /// Route that the request matched.
    Route,
    /// Service that the matched route refers to.
    Service,
}

/// Access to a request in progress, implemented by the data plane.
pub trait Exchange: Lookup {
    /// Returns the request method as the client sent it.
    fn method(&self) -> &[u8];
    /// Returns the normalised path of the request, without the query.
    fn path(&self) -> &[u8];
    /// Returns the query string without `?`.
    fn query(&self) -> Option<&[u8]>;
    /// Returns normalised path and query. A `?`, `#` or `%` within the path and control bytes stay
    /// escaped, so that the result is unambiguous.
    fn request_uri(&self) -> Cow<'_, [u8]>;
    /// Returns path and query as sent, without the scheme and host of an absolute target.
    fn real_request_uri(&self) -> Cow<'_, [u8]>;
    /// Returns the normalised path for a request line: reserved characters are escaped if the
    /// client has escaped them. Empty without a path.
    fn escaped_path(&self) -> Cow<'_, [u8]> {
        let options = NormalizeOptions::default();
        let sent = path_of(self.real_request_uri());
        match escaped_path(&sent, &options) {
            Ok(path) => Cow::Owned(path.into_owned()),
            Err(_) => Cow::Borrowed(b""),
        }
    }
    /// Returns the path as sent if it equals the normalised path, that is, without escapes or dot
    /// segments.
    fn path_as_sent(&self) -> Option<&[u8]> {
        None
    }
    /// Returns the first line of a header as sent by the client. Headers reserved for the gateway
    /// and those named in `Connection` are missing.
    fn client_header(&self, name: &[u8]) -> Option<&[u8]>;
    /// Returns all lines of a header as sent by the client, joined to one (RFC 9110 §5.3). Headers
    /// reserved for the gateway and those named in `Connection` are missing.
    fn client_header_list(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let mut joined: Option<Vec<u8>> = None;
        self.each_client_header(&mut |other, value| {
            if other.eq_ignore_ascii_case(name) {
                match &mut joined {
                    Some(joined) => join_line(joined, name, value),
                    None => joined = Some(value.to_vec()),
                }
            }
        });
        joined.map(Cow::Owned)
    }
    /// Calls `visit` with every header line as sent by the client. Headers reserved for the gateway
    /// and those named in `Connection` are missing.
    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// Whether the client asks to switch to WebSocket.
    fn asks_websocket(&self) -> bool {
        self.client_header(b"upgrade").is_some_and(|to| to.eq_ignore_ascii_case(b"websocket"))
    }
    /// Returns the client's address after real-ip processing.
    fn remote_address(&self) -> IpAddr;
    /// Returns the address of the other end of the connection.
    fn peer_address(&self) -> IpAddr;
    /// Whether the client's connection to the gateway uses TLS.
    fn is_tls(&self) -> bool;
    /// Returns the changes that plugins have made so far.
    fn edits(&self) -> &RequestEdits;
    /// Returns the changes that plugins have made so far, for further changes.
    fn edits_mut(&mut self) -> &mut RequestEdits;
    /// Reads the whole request body, of at most `bytes_max` bytes without chunk framing.
    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>>;
    /// Returns the body without chunk framing, if it has been read.
    fn body(&self) -> Option<&[u8]>;
    /// Runs `look` on the body that was read, or on its replacement. A long body is examined on
    /// another thread.
    fn examine_body<'a>(
        &'a mut self,
        look: BodyExaminer,
    ) -> LocalFuture<'a, Result<Box<dyn Any + Send>, BodyError>> {
        let found = look(self.edits().body.as_deref().or(self.body()).unwrap_or_default());
        Box::pin(std::future::ready(Ok(found)))
    }
    /// Whether this exchange is a connection below HTTP, which has addresses but no request.
    fn is_connection(&self) -> bool {
        false
    }
    /// Reads the first bytes of a connection below HTTP until `is_enough` returns true. Nodes still
    /// get these bytes. Fails for HTTP requests.
    fn read_first_bytes<'a>(
        &'a mut self,
        _is_enough: fn(&[u8]) -> bool,
    ) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(std::future::ready(Err(BodyError::Broken)))
    }
    /// Returns the bytes read from a connection and not yet sent on.
    fn first_bytes(&self) -> &[u8] {
        &[]
    }
    /// Whether the request has failed and plugins cannot change that, for example because its body
    /// exceeds the memory budget.
    fn is_refused(&self) -> bool {
        false
    }
    /// Returns the memory budget for bodies that plugins hold.
    fn memory(&self) -> Arc<MemoryBudget> {
        MemoryBudget::unlimited()
    }
    /// Records the consumer of the request, for variables, access log and metrics.
    fn note_consumer(&mut self, consumer: &Consumer);
    /// Returns the time of the monotonic and of the wall clock.
    fn now(&self) -> Moment;
    /// Returns a random number; not suitable for secrets.
    fn random(&self) -> u64;
    /// Waits for `time` without blocking the thread.
    fn sleep<'a>(&'a mut self, time: Duration) -> LocalFuture<'a, ()>;
    /// Returns this exchange as a source of variables.
    fn as_lookup(&self) -> &dyn Lookup;
    /// Returns the document of an object that the request has matched, for plugins that pass it on.
    /// `None` if the object does not exist or its document is not available.
    fn matched_object(&self, _kind: MatchedObject) -> Option<serde_json::Value> {
        None
    }
    /// Returns the trace that the request belongs to; `None` without one.
    fn trace(&self) -> Option<&RequestTrace> {
        None
    }
    /// Begins a trace of the request, in the place of one that was begun before. Nodes receive its
    /// context, and its spans are exported when the request has ended.
    fn begin_trace(&mut self, _start: TraceStart) {}
    /// Calls `visit` with every header line as a node would get it now. `Host` and framing headers
    /// may still change.
    fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        each_header(self, visit);
    }
    /// Returns all lines of a header, joined to one (RFC 9110 §5.3), with the changes of plugins.
    /// Use it for decisions about access, because nodes receive all lines.
    fn header(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let edits = &self.edits().headers;
        if edits.is_empty() {
            return self.client_header_list(name);
        }
        let of_client = if edits.hides(name) { None } else { self.client_header_list(name) };
        let named = edits.lines().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        let mut added = named.map(|(_, value)| value);
        let first = match of_client {
            Some(value) => value,
            None => Cow::Borrowed(added.next()?),
        };
        Some(added.fold(first, |joined, value| {
            let mut joined = joined.into_owned();
            join_line(&mut joined, name, value);
            Cow::Owned(joined)
        }))
    }
}

/// Appends the value of a further line of the header `name` to `joined`, with the separator of that
/// header.
pub fn join_line(joined: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let is_cookie = name.eq_ignore_ascii_case(b"cookie");
    joined.extend_from_slice(if is_cookie { b"; " } else { b", " });
    joined.extend_from_slice(value);
}

/// Returns the path of a URI without scheme and host.
pub fn path_of(uri: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let end = uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len());
    match uri {
        Cow::Borrowed(uri) => Cow::Borrowed(&uri[..end]),
        Cow::Owned(mut uri) => {
            uri.truncate(end);
            Cow::Owned(uri)
        }
    }
}

/// Calls `visit` with every header line, with the changes of plugins.
pub fn each_header<E: Exchange + ?Sized>(exchange: &E, visit: &mut dyn FnMut(&[u8], &[u8])) {
    let edits = &exchange.edits().headers;
    exchange.each_client_header(&mut |name, value| {
        if !edits.hides(name) {
            visit(name, value);
        }
    });
    edits.lines().for_each(|(name, value)| visit(name, value));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeExchange;

    #[test]
    fn a_header_is_all_of_its_lines_with_what_plugins_have_changed() {
        let text = "GET / HTTP/1.1\nX-A: 1\nx-a: 2\nCookie: a=b\nCookie: c=d\nX-E:\n\n";
        let mut exchange = FakeExchange::parse(text, 0);
        let header = |exchange: &FakeExchange, name: &str| {
            let value = Exchange::header(exchange, name.as_bytes());
            value.map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        assert_eq!(header(&exchange, "X-A").as_deref(), Some("1, 2"));
        assert_eq!(header(&exchange, "cookie").as_deref(), Some("a=b; c=d"));
        assert_eq!(header(&exchange, "x-e").as_deref(), Some(""));
        assert_eq!(header(&exchange, "x-b"), None);
        exchange.edits.headers.add("X-A", b"3");
        exchange.edits.headers.set("Cookie", b"e=f");
        exchange.edits.headers.add("X-B", b"4");
        exchange.edits.headers.add("X-B", b"5");
        assert_eq!(header(&exchange, "X-A").as_deref(), Some("1, 2, 3"));
        assert_eq!(header(&exchange, "cookie").as_deref(), Some("e=f"));
        assert_eq!(header(&exchange, "x-b").as_deref(), Some("4, 5"));
    }
}
