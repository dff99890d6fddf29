//! Answers: one message, in one piece or as a head and many shared pieces of known length together.
//!
//! Handlers make them and transports send them; an answer of 22 MB is a hundred thousand references, and
//! its pieces are fetched when their turn comes.

use std::fmt;

use bytes::Bytes;

/// The pieces of a long answer, in order.
pub trait Chunks: Send {
    /// The next piece; `None` after the last. Empty pieces are allowed.
    fn next(&mut self) -> Option<Bytes>;
}

/// One message of an answer.
pub struct Answer {
    pub(crate) first: Bytes,
    pub(crate) rest: Option<Box<dyn Chunks>>,
    pub(crate) length: usize,
    /// Whether its bytes are kept anyway, so that one who does not read it holds up nothing.
    pub(crate) is_shared: bool,
}

impl Answer {
    /// A message that others send too.
    pub fn shared(message: Bytes) -> Self {
        Self { length: message.len(), first: message, rest: None, is_shared: true }
    }

    /// A message made of `first` and shared pieces: `length` bytes together.
    pub fn chain(first: Bytes, length: usize, rest: impl Chunks + 'static) -> Self {
        Self { first, rest: Some(Box::new(rest)), length, is_shared: true }
    }

    /// Bytes of the message.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The whole message in one piece, as HTTP/1 needs it; copies a chain together.
    pub fn into_bytes(self) -> Bytes {
        let Some(mut rest) = self.rest else { return self.first };
        let mut whole = Vec::with_capacity(self.length);
        whole.extend_from_slice(&self.first);
        while let Some(piece) = rest.next() {
            whole.extend_from_slice(&piece);
        }
        whole.into()
    }
}

impl From<Bytes> for Answer {
    /// A message made for one client.
    fn from(message: Bytes) -> Self {
        Self { length: message.len(), first: message, rest: None, is_shared: false }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Answer").field("length", &self.length).finish_non_exhaustive()
    }
}
