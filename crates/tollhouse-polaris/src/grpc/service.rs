//! Registry of gRPC methods: a handler per path.
//!
//! Three shapes cover all methods here. *Unary*: one message, one answer. *Each*: a stream in both
//! directions, in which every message gets one answer, in order and one at a time. *Series*: one
//! message, then answers as they become available. Handlers run on the connection's thread; a
//! handler that must wait returns a future.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use super::fields::Fields;
use super::status::{Code, Status};
use crate::answer::Answer;
use bytes::Bytes;

/// Bytes charged per header field in addition to name and value.
const FIELD_BYTES: usize = 64;

/// Answer to a message, or the status to end the call with.
pub type Outcome = Result<Answer, Status>;

/// Result of a handler: an outcome, or a future of it.
pub enum Reply {
    Now(Outcome),
    Later(Pin<Box<dyn Future<Output = Outcome>>>),
}

/// Stream of answers; dropped when the client disconnects.
pub trait Series {
    /// Returns the next answer; `None` ends the call with OK.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>>;
}

/// Series of one answer, which is a future.
pub struct OneAnswer(Option<Pin<Box<dyn Future<Output = Outcome>>>>);

/// Context of a call: the client's address and header fields.
#[derive(Debug)]
pub struct Call {
    peer: SocketAddr,
    fields: Fields,
}

/// Handler that is called for each message of a call.
pub(super) type Handler = dyn Fn(&Rc<Call>, Bytes) -> Reply;
/// Handler that answers one message with a series.
pub(super) type SeriesHandler = dyn Fn(&Rc<Call>, Bytes) -> Result<Box<dyn Series>, Status>;

/// Shape and handler of a method.
#[derive(Clone)]
pub(super) enum Method {
    Unary(Rc<Handler>),
    Each(Rc<Handler>),
    Series(Rc<SeriesHandler>),
}

/// Methods of a server, for one thread.
#[derive(Default)]
pub struct Services {
    methods: HashMap<&'static str, Method, foldhash::fast::RandomState>,
    /// Methods by service, to tell an unknown service from an unknown method.
    services: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Reply {
    /// Creates a reply from a future.
    pub fn later(outcome: impl Future<Output = Outcome> + 'static) -> Self {
        Self::Later(Box::pin(outcome))
    }
}

impl OneAnswer {
    pub fn from_future(answer: impl Future<Output = Outcome> + 'static) -> Self {
        Self(Some(Box::pin(answer)))
    }
}

impl Series for OneAnswer {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>> {
        let Some(answer) = &mut self.0 else { return Poll::Ready(None) };
        let outcome = ready!(answer.as_mut().poll(cx));
        self.0 = None;
        Poll::Ready(Some(outcome))
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self::Now(outcome)
    }
}

impl Call {
    pub fn new(peer: SocketAddr, fields: Fields) -> Self {
        Self { peer, fields }
    }

    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the memory charged for the header fields, in bytes.
    pub(super) fn head_bytes(&self) -> usize {
        self.fields.text_bytes() + FIELD_BYTES * self.fields.len()
    }

    /// Returns the value of a header field; `None` if it is missing or not ASCII.
    pub fn field(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.fields.find(name)?).ok().filter(|text| text.is_ascii())
    }
}

impl Services {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method with one request message and one answer.
    #[must_use]
    pub fn unary(
        self,
        path: &'static str,
        handler: impl Fn(&Rc<Call>, Bytes) -> Reply + 'static,
    ) -> Self {
        self.with(path, Method::Unary(Rc::new(handler)))
    }

    /// Adds a method that answers every message of a stream.
    #[must_use]
    pub fn each(
        self,
        path: &'static str,
        handler: impl Fn(&Rc<Call>, Bytes) -> Reply + 'static,
    ) -> Self {
        self.with(path, Method::Each(Rc::new(handler)))
    }

    /// Adds a method that answers one message with a series.
    #[must_use]
    pub fn series(
        self,
        path: &'static str,
        handler: impl Fn(&Rc<Call>, Bytes) -> Result<Box<dyn Series>, Status> + 'static,
    ) -> Self {
        self.with(path, Method::Series(Rc::new(handler)))
    }

    /// Returns the names of all services, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.services.keys().copied()
    }

    /// Whether a method is served under a path.
    pub fn has(&self, path: &str) -> bool {
        self.methods.contains_key(path)
    }

    fn with(mut self, path: &'static str, method: Method) -> Self {
        let (service, name) = split(path).expect("a path has a service and a method");
        self.methods.insert(path, method);
        self.services.entry(service).or_default().push(name);
        self
    }

    /// Returns the method of a path.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`, with a message that tells an unknown service from an unknown method.
    pub(super) fn find(&self, path: &str) -> Result<&Method, Status> {
        self.methods.get(path).ok_or_else(|| {
            let message = match split(path) {
                None => format!("malformed method name: {path:?}"),
                Some((service, method)) if self.services.contains_key(service) => {
                    format!("unknown method {method} for service {service}")
                }
                Some((service, _)) => format!("unknown service {service}"),
            };
            Status::new(Code::Unimplemented, message)
        })
    }
}

/// Splits a path into service and method.
fn split(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix('/')?.rsplit_once('/')
}

impl fmt::Debug for Services {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_tuple("Services").field(&self.services).finish()
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Now(outcome) => out.debug_tuple("Now").field(outcome).finish(),
            Self::Later(_) => out.write_str("Later"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_paths_say_what_is_unknown() {
        let handler = |_: &Rc<Call>, message: Bytes| Reply::Now(Ok(message.into()));
        let services = Services::new().unary("/a.B/C", handler).each("/a.B/D", handler);
        assert!(matches!(services.find("/a.B/C"), Ok(Method::Unary(_))));
        assert!(matches!(services.find("/a.B/D"), Ok(Method::Each(_))));
        for (path, message) in [
            ("/a.B/E", "unknown method E for service a.B"),
            ("/a.X/C", "unknown service a.X"),
            ("/a", "malformed method name: \"/a\""),
            ("", "malformed method name: \"\""),
        ] {
            let status = services.find(path).err().expect("unknown");
            assert_eq!((status.code, &*status.message), (Code::Unimplemented, message));
        }
        assert_eq!(services.names().collect::<Vec<_>>(), ["a.B"]);
    }
}
