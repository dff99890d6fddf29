//! Answers: one message, in one piece or as a head followed by shared pieces of known total length.
//!
//! Handlers create answers, transports send them. A long answer consists of references to shared
//! pieces: 22 MB take a hundred thousand. Each piece is fetched when it is sent.

use std::fmt;

use bytes::Bytes;

/// Iterator over the pieces of a long answer.
pub trait Chunks: Send {
    /// Returns the next piece; `None` after the last. Empty pieces are allowed.
    fn next(&mut self) -> Option<Bytes>;
}

pub struct Answer {
    pub(crate) first: Bytes,
    pub(crate) rest: Option<Box<dyn Chunks>>,
    pub(crate) length: usize,
    /// Whether other owners keep the bytes anyway. Such an answer is not charged to a client that
    /// does not read it.
    pub(crate) is_shared: bool,
}

impl Answer {
    /// Creates an answer from a message that several clients get.
    pub fn shared(message: Bytes) -> Self {
        Self { length: message.len(), first: message, rest: None, is_shared: true }
    }

    /// Creates an answer from a first piece and further shared pieces, `length` bytes in total.
    pub fn chain(first: Bytes, length: usize, rest: impl Chunks + 'static) -> Self {
        Self { first, rest: Some(Box::new(rest)), length, is_shared: true }
    }

    /// Returns the length of the message in bytes.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the message in one piece, as HTTP/1 needs it; copies the pieces of a chain.
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
    /// Creates an answer for one client only.
    fn from(message: Bytes) -> Self {
        Self { length: message.len(), first: message, rest: None, is_shared: false }
    }
}

impl fmt::Debug for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Answer").field("length", &self.length).finish_non_exhaustive()
    }
}
