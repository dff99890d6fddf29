//! An answer that a plugin gives instead of a node.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use smallvec::SmallVec;

/// `Content-Type` of a plugin's object or text that names none; the one that APISIX sends.
pub const TEXT_PLAIN: &str = "text/plain; charset=utf-8";

/// Header lines kept without allocating; few answers have more.
const HEADERS_INLINE: usize = 4;

/// A header line of an answer.
pub type HeaderLine<'a> = (Cow<'a, str>, Cow<'a, [u8]>);

/// Header lines that a cache and many answers share.
pub type SharedLines = Arc<[(Box<str>, Box<[u8]>)]>;

/// Status, headers and body.
#[derive(Debug, Clone)]
pub struct Answer<'a> {
    /// The status.
    pub status: u16,
    /// Header lines in front of `headers`, such as those of a stored answer; sent without being copied before.
    pub shared_headers: Option<SharedLines>,
    /// Header lines, in order. A `Content-Type` here replaces the one that the body implies.
    pub headers: SmallVec<[HeaderLine<'a>; HEADERS_INLINE]>,
    /// The body.
    pub body: AnswerBody<'a>,
}

/// The body of an answer.
#[derive(Debug, Clone)]
pub enum AnswerBody<'a> {
    /// None given: an error status gets the gateway's HTML page, any other an empty body.
    None,
    /// Text as it stands, no line end added.
    Text(Cow<'a, [u8]>),
    /// A JSON object; gets a line end.
    Json(Value),
    /// Bytes shared with others, such as a cache; sent without being copied.
    Shared(Bytes),
    /// None is sent, since the request is HEAD: `Content-Length` tells how long it would be.
    LeftOut(Option<u64>),
}

impl Answer<'static> {
    /// The same as one that may borrow.
    #[must_use]
    pub fn borrowed<'a>(self) -> Answer<'a> {
        // Line by line: the list itself does not shorten.
        let shared_headers = self.shared_headers;
        let bare = Answer { body: self.body, shared_headers, ..Answer::status(self.status) };
        let lines = self.headers.into_iter();
        lines.fold(bare, |answer, (name, value)| answer.with_header(name, value))
    }
}

impl<'a> Answer<'a> {
    /// A status alone.
    pub fn status(status: u16) -> Self {
        Self { status, shared_headers: None, headers: SmallVec::new(), body: AnswerBody::None }
    }

    /// A JSON object, followed by a line end.
    pub fn json(status: u16, body: Value) -> Self {
        Self { body: AnswerBody::Json(body), ..Self::status(status) }
    }

    /// `{"message": …}`, as security plugins answer.
    pub fn message(status: u16, message: &str) -> Self {
        Self::json(status, serde_json::json!({ "message": message }))
    }

    /// `{"error_msg": …}`, as traffic plugins answer.
    pub fn error_msg(status: u16, message: &str) -> Self {
        Self::json(status, serde_json::json!({ "error_msg": message }))
    }

    /// Text as it stands.
    pub fn text(status: u16, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { body: AnswerBody::Text(body.into()), ..Self::status(status) }
    }

    /// The same with one more header line.
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
