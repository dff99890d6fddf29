//! What a server offers: methods by path, each with a handler.
//!
//! Three shapes are enough for every method here. *Unary*: a message, an answer. *Each*: a stream in
//! both directions in which every message gets one answer, in order, and waits for the one before.
//! *Series*: a message, then answers as they come. Handlers run on the connection's thread; one that
//! must wait returns a future.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use super::fields::Fields;
use super::status::{Code, Status};
use crate::answer::Answer;
use bytes::Bytes;

/// Bytes that a header field takes beside its name and its value.
const FIELD_BYTES: usize = 64;

/// How a message was answered.
pub type Outcome = Result<Answer, Status>;

/// What a handler gives back.
pub enum Reply {
    /// The answer is there.
    Now(Outcome),
    /// The answer takes waiting.
    Later(Pin<Box<dyn Future<Output = Outcome>>>),
}

/// Answers that come over time. Dropped when the client goes away.
pub trait Series {
    /// The next answer; `None` ends the call well.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Outcome>>;
}

/// Who calls, and with which fields.
#[derive(Debug)]
pub struct Call {
    peer: SocketAddr,
    fields: Fields,
}

/// Answers one message.
pub(super) type Handler = dyn Fn(&Rc<Call>, Bytes) -> Reply;
/// Answers one message with a series.
pub(super) type SeriesHandler = dyn Fn(&Rc<Call>, Bytes) -> Result<Box<dyn Series>, Status>;

/// A method's shape and handler.
#[derive(Clone)]
pub(super) enum Method {
    Unary(Rc<Handler>),
    Each(Rc<Handler>),
    Series(Rc<SeriesHandler>),
}

/// The methods of a server. Belongs to one thread.
#[derive(Default)]
pub struct Services {
    methods: HashMap<&'static str, Method, foldhash::fast::RandomState>,
    /// Methods by service, for telling an unknown service from an unknown method.
    services: BTreeMap<&'static str, Vec<&'static str>>,
}

impl Reply {
    /// An answer that takes waiting.
    pub fn later(outcome: impl Future<Output = Outcome> + 'static) -> Self {
        Self::Later(Box::pin(outcome))
    }
}

impl From<Outcome> for Reply {
    fn from(outcome: Outcome) -> Self {
        Self::Now(outcome)
    }
}

impl Call {
    /// A call from `peer` with the header fields `fields`.
    pub fn new(peer: SocketAddr, fields: Fields) -> Self {
        Self { peer, fields }
    }

    /// The client's address.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Bytes that the header fields take.
    pub(super) fn head_bytes(&self) -> usize {
        self.fields.text_bytes() + FIELD_BYTES * self.fields.len()
    }

    /// The value of a header field, if it is there and is text.
    pub fn field(&self, name: &str) -> Option<&str> {
        std::str::from_utf8(self.fields.find(name)?).ok().filter(|text| text.is_ascii())
    }
}

impl Services {
    /// No methods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a method that answers one message with one.
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

    /// The names of all services, in order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.services.keys().copied()
    }

    fn with(mut self, path: &'static str, method: Method) -> Self {
        let (service, name) = split(path).expect("a path has a service and a method");
        self.methods.insert(path, method);
        self.services.entry(service).or_default().push(name);
        self
    }

    /// The method of a path.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`, in words that tell an unknown service from an unknown method.
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

/// The service and the method of a path.
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
