//! Answer of a plugin, which the client gets instead of a node's answer.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use smallvec::SmallVec;

/// Default `Content-Type` of bodies that plugins send, JSON objects included, as in APISIX.
pub const TEXT_PLAIN: &str = "text/plain; charset=utf-8";

/// Number of header lines of an answer that need no allocation; few answers have more.
const HEADERS_INLINE: usize = 4;

/// Header of an answer: name and value.
pub type HeaderLine<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

/// Header lines of a cached answer, which the cache and all answers made from it share.
pub type SharedLines = Arc<[(Box<str>, Box<[u8]>)]>;

/// Answer with status, headers and body.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// HTTP status of the answer.
    pub status: u16,
    /// Header lines that are sent before `headers`, such as those of a cached answer. They are
    /// shared and not copied.
    pub shared_headers: Option<SharedLines>,
    /// Header lines in order. A `Content-Type` here replaces the one that the body implies.
    pub headers: SmallVec<[HeaderLine<'a>; HEADERS_INLINE]>,
    /// Body; [`AnswerBody::None`] by default.
    pub body: AnswerBody<'a>,
    /// Reason of a refusal, for logs and metrics; `None` for any other answer.
    pub refusal: Option<RefusalKind>,
    /// Name of the part that refused, for a plugin that runs others. Such a refusal counts whatever
    /// its status is.
    pub refused_by: Option<Box<str>>,
}

/// Why a plugin refuses a request. Each kind is an error code of the access log and the metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusalKind {
    /// The request has no credential.
    AuthMissing,
    /// The credential is unknown, wrong or expired.
    AuthInvalid,
    /// The credential is right, and its time is too far from the gateway's clock.
    ClockDiffers,
    /// A limit on requests or connections is reached.
    LimitExceeded,
    /// A rule forbids the request.
    DeniedByRule,
    /// The request is malformed, or its body too long for the plugin.
    RequestInvalid,
    /// The plugin fails requests on purpose.
    FaultInjected,
    /// The plugin spares a node that fails.
    CircuitOpen,
    /// The plugin cannot do its work, for example because a server that it asks is away.
    PluginFailed,
    /// No configured object matches the request.
    NotFound,
    /// No node may receive the request.
    NoNodes,
    /// A node that the plugin itself called failed.
    UpstreamFailed,
    /// A node that the plugin itself called did not answer in time.
    UpstreamTimedOut,
}

impl RefusalKind {
    /// Whether the plugin decided to refuse. The other kinds tell what happened elsewhere, so that
    /// logs and metrics blame no plugin.
    pub const fn is_a_decision(self) -> bool {
        match self {
            Self::AuthMissing
            | Self::AuthInvalid
            | Self::ClockDiffers
            | Self::LimitExceeded
            | Self::DeniedByRule
            | Self::RequestInvalid
            | Self::FaultInjected
            | Self::CircuitOpen
            | Self::PluginFailed => true,
            Self::NotFound | Self::NoNodes | Self::UpstreamFailed | Self::UpstreamTimedOut => false,
        }
    }
}

/// Body of an answer.
#[derive(Debug, Clone)]
pub enum AnswerBody<'a> {
    /// Default body: the gateway's HTML page for an error status, otherwise an empty body.
    None,
    /// No body and no content type, also for an error status.
    Empty,
    /// Text that is sent unchanged, without an added line end.
    Text(Cow<'a, [u8]>),
    /// JSON object, followed by a line end.
    Json(Value),
    /// Shared bytes, such as those of a cache; sent without a copy.
    Shared(Bytes),
    /// No body, because the request is HEAD. The number is the `Content-Length` of the omitted
    /// body, if known.
    LeftOut(Option<u64>),
}

impl Answer<'static> {
    /// Converts the answer to one with a shorter lifetime.
    #[must_use]
    pub fn borrowed<'a>(self) -> Answer<'a> {
        // Rebuilt line by line, because the list is not covariant.
        let shared_headers = self.shared_headers;
        let (body, refusal, refused_by) = (self.body, self.refusal, self.refused_by);
        let bare =
            Answer { body, shared_headers, refusal, refused_by, ..Answer::status(self.status) };
        let lines = self.headers.into_iter();
        lines.fold(bare, |answer, (name, value)| answer.with_header(name, value))
    }
}

impl<'a> Answer<'a> {
    /// Returns an answer with the default body.
    pub fn status(status: u16) -> Self {
        let (headers, body) = (SmallVec::new(), AnswerBody::None);
        Self { status, shared_headers: None, headers, body, refusal: None, refused_by: None }
    }

    /// Returns an answer with a JSON object and a line end.
    pub fn json(status: u16, body: Value) -> Self {
        Self { body: AnswerBody::Json(body), ..Self::status(status) }
    }

    /// Returns an answer with the body `{"message": …}`, as security plugins send it.
    pub fn message(status: u16, message: &str) -> Self {
        Self::json(status, serde_json::json!({ "message": message }))
    }

    /// Returns an answer with the body `{"error_msg": …}`, as traffic plugins send it.
    pub fn error_msg(status: u16, message: &str) -> Self {
        Self::json(status, serde_json::json!({ "error_msg": message }))
    }

    /// Returns an answer with a text, which is sent unchanged.
    pub fn text(status: u16, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { body: AnswerBody::Text(body.into()), ..Self::status(status) }
    }

    /// Marks the answer as a refusal.
    #[must_use]
    pub fn refused(self, kind: RefusalKind) -> Self {
        Self { refusal: Some(kind), ..self }
    }

    /// Names the part that refused. An answer that names one already keeps its name.
    #[must_use]
    pub fn by(self, name: &str) -> Self {
        let refused_by = self.refused_by.or_else(|| Some(name.into()));
        Self { refused_by, ..self }
    }

    /// Appends a header line; existing lines with this name stay.
    #[must_use]
    pub fn with_header(
        mut self,
        name: impl Into<Cow<'a, str>>,
        value: impl Into<Cow<'a, [u8]>>,
    ) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}
