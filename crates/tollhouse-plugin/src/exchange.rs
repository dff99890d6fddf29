//! The request under way, as the data plane lends it to plugins.
//!
//! Implemented by the data plane and by the harness of `testing`; plugins use it through
//! [`RequestContext`](crate::RequestContext).

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;
use std::time::Duration;

use tollhouse_model::variable::Lookup;

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
    /// Path and query as sent.
    fn request_uri(&self) -> &[u8];
    /// The first line of that name, as sent by the client.
    fn client_header(&self, name: &[u8]) -> Option<&[u8]>;
    /// Calls `visit` with every header line that the client sent.
    fn each_client_header(&self, visit: &mut dyn FnMut(&[u8], &[u8]));
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
    /// Notes who asks, for variables, log and metrics.
    fn note_consumer(&mut self, username: &str, group: Option<&str>);
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
    /// The first line of that name, with what plugins have changed.
    fn header(&self, name: &[u8]) -> Option<Cow<'_, [u8]>> {
        let edits = &self.edits().headers;
        if let Some(value) = edits.find(name) {
            return Some(Cow::Borrowed(value));
        }
        if edits.hides(name) {
            return None;
        }
        self.client_header(name).map(Cow::Borrowed)
    }
}
