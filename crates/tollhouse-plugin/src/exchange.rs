//! The request under way, as the data plane lends it to plugins.
//!
//! Implemented by the data plane and by the harness of `testing`; plugins use it through
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

use crate::consumer::Consumer;
use crate::edits::RequestEdits;

/// A future that stays on its core.
pub type LocalFuture<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Milliseconds since some moment; never goes back.
    pub monotonic_ms: u64,
    /// Milliseconds since 1970.
    pub unix_ms: u64,
}

/// Why a body could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyError {
    /// It is longer than allowed; answered by 413.
    TooLarge,
    /// The client broke off, was too slow, or broke the framing.
    Broken,
}

/// Looks at a body and brings back what it finds.
pub type BodyExaminer = Box<dyn FnOnce(&[u8]) -> Box<dyn Any + Send> + Send>;

/// An object that a request has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchedObject {
    /// Its route.
    Route,
    /// The route's service.
    Service,
}

/// The data plane's side of a request under way.
pub trait Exchange: Lookup {
    /// The method as sent.
    fn method(&self) -> &[u8];
    /// The normalised path.
    fn path(&self) -> &[u8];
    /// The query string without `?`.
    fn query(&self) -> Option<&[u8]>;
    /// Normalised path and query. A `?`, `#` or `%` that is part of the path, and control bytes,
    /// stay escaped, so that it is read in one way.
    fn request_uri(&self) -> Cow<'_, [u8]>;
    /// Path and query as sent; never with the scheme and host of an absolute target.
    fn real_request_uri(&self) -> Cow<'_, [u8]>;
    /// The normalised path as it can travel in a request line: reserved characters are escaped where
    /// the client has escaped them. Empty where there is no path.
    fn escaped_path(&self) -> Cow<'_, [u8]> {
        let options = NormalizeOptions::default();
        let sent = path_of(self.real_request_uri());
        match escaped_path(&sent, &options) {
            Ok(path) => Cow::Owned(path.into_owned()),
            Err(_) => Cow::Borrowed(b""),
        }
    }
    /// The path as sent where it is the normalised one as it stands: nothing in it is escaped, and no segment
    /// leads up.
    fn path_as_sent(&self) -> Option<&[u8]> {
        None
    }
    /// The first line of that name, as sent by the client; those that are reserved for the gateway
    /// and those that `Connection` names are not there.
    fn client_header(&self, name: &[u8]) -> Option<&[u8]>;
    /// All lines of that name that the client sent, without the same, as one line would have them (RFC 9110 §5.3).
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
    /// Calls `visit` with every header line that the client sent, without the same.
    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
    /// Whether the client asks to switch to WebSocket.
    fn asks_websocket(&self) -> bool {
        self.client_header(b"upgrade").is_some_and(|to| to.eq_ignore_ascii_case(b"websocket"))
    }
    /// The client's address after real-ip processing.
    fn remote_address(&self) -> IpAddr;
    /// The peer's address: the other end of the connection.
    fn peer_address(&self) -> IpAddr;
    /// Whether the client came over TLS.
    fn is_tls(&self) -> bool;
    /// What plugins have changed so far.
    fn edits(&self) -> &RequestEdits;
    /// The same, to be changed.
    fn edits_mut(&mut self) -> &mut RequestEdits;
    /// Reads the whole body, of at most `bytes_max` bytes once decoded.
    fn read_body<'a>(&'a mut self, bytes_max: u64) -> LocalFuture<'a, Result<(), BodyError>>;
    /// The body, if it has been read; without chunk framing.
    fn body(&self) -> Option<&[u8]>;
    /// Lets `look` see the body that has been read, or the one that takes its place: on another
    /// thread where it is long.
    fn examine_body<'a>(
        &'a mut self,
        look: BodyExaminer,
    ) -> LocalFuture<'a, Result<Box<dyn Any + Send>, BodyError>> {
        let found = look(self.edits().body.as_deref().or(self.body()).unwrap_or_default());
        Box::pin(std::future::ready(Ok(found)))
    }
    /// Whether this is a connection below HTTP: it has addresses, and nothing of a request.
    fn is_connection(&self) -> bool {
        false
    }
    /// Reads the first bytes of a connection until `is_enough` says so of them; nodes get them all the
    /// same. A request has none.
    fn read_first_bytes<'a>(
        &'a mut self,
        _is_enough: fn(&[u8]) -> bool,
    ) -> LocalFuture<'a, Result<(), BodyError>> {
        Box::pin(std::future::ready(Err(BodyError::Broken)))
    }
    /// What has been read of a connection, and not been sent on.
    fn first_bytes(&self) -> &[u8] {
        &[]
    }
    /// Whether the request cannot go on, whatever plugins answer.
    fn is_refused(&self) -> bool {
        false
    }
    /// What bodies that are held take their bytes of.
    fn memory(&self) -> Arc<MemoryBudget> {
        MemoryBudget::unlimited()
    }
    /// Notes who asks, for variables, log and metrics.
    fn note_consumer(&mut self, consumer: &Consumer);
    /// Now.
    fn now(&self) -> Moment;
    /// A random number; not for secrets.
    fn random(&self) -> u64;
    /// Waits.
    fn sleep<'a>(&'a mut self, time: Duration) -> LocalFuture<'a, ()>;
    /// This exchange as the source of variables.
    fn as_lookup(&self) -> &dyn Lookup;
    /// The document of an object that the request has reached, for plugins that show it to others;
    /// `None` where there is none, or where documents are not at hand.
    fn matched_object(&self, _kind: MatchedObject) -> Option<serde_json::Value> {
        None
    }
    /// Calls `visit` with every header line as a node would get it now; of `Host` and framing, what is
    /// visited does not count.
    fn each_node_header(&self, visit: &mut dyn FnMut(&[u8], &[u8])) {
        each_header(self, visit);
    }
    /// All lines of that name, with what plugins have changed, as one line would have them (RFC 9110 §5.3): nodes get
    /// all of them, so that whatever is decided by a header is decided by all of it.
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

/// Appends the value of a further line of that name.
pub fn join_line(joined: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    let is_cookie = name.eq_ignore_ascii_case(b"cookie");
    joined.extend_from_slice(if is_cookie { b"; " } else { b", " });
    joined.extend_from_slice(value);
}

/// The path of a URI that has no scheme and host.
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

/// Calls `visit` with every header line, with what plugins have changed.
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
