//! Answers to the requests of a batch, joined to one JSON list as they arrive.
//!
//! The list is what counts: names, escapes and headers included. Its memory is reserved in the
//! budget of the process, and an answer that does not fit is replaced by a short refusal.

use std::fmt::{self, Display, Write as _};
use std::io;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::ser::{Serialize, SerializeMap, Serializer};
use tollhouse_stdx::{MemoryBudget, Reservation};

use crate::http_client::Reply;

/// Longest body of one answer, in bytes.
pub(super) const REPLY_BYTES_MAX: usize = 1 << 20;

/// Longest list, in bytes, not counting refusals.
const LIST_BYTES_MAX: usize = 4 << 20;

/// Answers of at most this many bytes are written on the core; longer ones on another thread.
const INLINE_BYTES_MAX: usize = 32 << 10;

/// Bytes that one answer takes while it is read, its head included.
const READ_BYTES: u64 = REPLY_BYTES_MAX as u64 + (1 << 19);

/// Error: the memory budget is exhausted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoMemory;

/// List of answers as JSON text.
pub(super) struct Answers {
    text: Vec<u8>,
    /// Reservation for the capacity of `text`.
    held: Reservation,
    /// Reservation for the answer that is being read.
    _read: Reservation,
    bytes_max: usize,
}

impl Answers {
    /// Returns an empty list whose memory comes from `memory`.
    pub(super) fn new(memory: &Arc<MemoryBudget>) -> Result<Self, NoMemory> {
        let take = |bytes| memory.take(bytes).ok_or(NoMemory);
        let (held, read) = (take(0)?, take(READ_BYTES)?);
        Ok(Self { text: Vec::new(), held, _read: read, bytes_max: LIST_BYTES_MAX })
    }

    /// Appends an answer, or a refusal if it does not fit.
    pub(super) async fn add(mut self, reply: Reply) -> Result<Self, NoMemory> {
        let lines = reply.headers.iter();
        let head_bytes: usize = lines.map(|(name, value)| name.as_str().len() + value.len()).sum();
        if head_bytes + reply.body.len() <= INLINE_BYTES_MAX {
            return self.write_reply(&reply).map(|()| self);
        }
        let written = tokio::task::spawn_blocking(move || {
            let written = self.write_reply(&reply);
            written.map(|()| self)
        });
        written.await.unwrap_or(Err(NoMemory))
    }

    fn write_reply(&mut self, reply: &Reply) -> Result<(), NoMemory> {
        let start = self.text.len();
        self.separate()?;
        let mut out = Limited { end: self.bytes_max, answers: self, has_memory: true };
        let is_written = serde_json::to_writer(&mut out, &Document(reply)).is_ok();
        if !out.has_memory {
            return Err(NoMemory);
        }
        if !is_written {
            self.text.truncate(start);
            return self.add_refusal(502, "the answers are too long");
        }
        Ok(())
    }

    /// Appends the answer of the gateway to a request that has none.
    pub(super) fn add_refusal(&mut self, status: u16, reason: &str) -> Result<(), NoMemory> {
        self.separate()?;
        self.push(serde_json::json!({"status": status, "reason": reason}).to_string().as_bytes())
    }

    fn separate(&mut self) -> Result<(), NoMemory> {
        self.push(if self.text.is_empty() { b"[" } else { b"," })
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), NoMemory> {
        let length = self.text.len() + bytes.len();
        if length > self.text.capacity() {
            let room = length.max(2 * self.text.capacity());
            if !self.held.resize(room as u64) {
                return Err(NoMemory);
            }
            self.text.reserve_exact(room - self.text.len());
        }
        self.text.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the complete list, and the reservation for its memory.
    pub(super) fn finish(mut self) -> Result<(Vec<u8>, Reservation), NoMemory> {
        if self.text.is_empty() {
            self.push(b"[")?;
        }
        self.push(b"]\n")?;
        Ok((self.text, self.held))
    }
}

/// Writer that fails where the list would be too long.
struct Limited<'a> {
    answers: &'a mut Answers,
    /// Largest length of the list, in bytes.
    end: usize,
    has_memory: bool,
}

impl io::Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.answers.text.len() + bytes.len() > self.end {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        if self.answers.push(bytes).is_err() {
            self.has_memory = false;
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Answer as an object of the list.
struct Document<'r>(&'r Reply);

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let status = http::StatusCode::from_u16(self.0.status).ok();
        let reason = status.and_then(|status| status.canonical_reason()).unwrap_or_default();
        let mut fields = out.serialize_map(None)?;
        fields.serialize_entry("status", &self.0.status)?;
        fields.serialize_entry("reason", reason)?;
        fields.serialize_entry("headers", &Headers(self.0))?;
        if !self.0.body.is_empty() {
            fields.serialize_entry("body", &Lossy(&self.0.body))?;
        }
        fields.end()
    }
}

/// Headers by name, as the name was written; a name with several lines has a list.
struct Headers<'r>(&'r Reply);

impl Serialize for Headers<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Reply { headers, written_names, .. } = self.0;
        out.collect_map(headers.keys().map(|name| {
            let spelled = written_names.get(name).cloned();
            (spelled.unwrap_or_else(|| title_case(name)), Values(headers, name))
        }))
    }
}

struct Values<'r>(&'r HeaderMap, &'r HeaderName);

impl Serialize for Values<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let mut values = self.0.get_all(self.1).iter().map(HeaderValue::as_bytes).map(Lossy);
        match (values.next(), values.next()) {
            (Some(value), None) => value.serialize(out),
            (first, second) => out.collect_seq(first.into_iter().chain(second).chain(values)),
        }
    }
}

/// Bytes as text; U+FFFD stands for invalid UTF-8.
struct Lossy<'r>(&'r [u8]);

impl Display for Lossy<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.utf8_chunks().try_for_each(|chunk| {
            out.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { out.write_char('\u{FFFD}') }
        })
    }
}

impl Serialize for Lossy<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

/// Returns a header's name in the form in which most servers write it, such as `Content-Type`.
fn title_case(name: &HeaderName) -> String {
    let part = |part: &str| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_ascii_uppercase() + rest
    };
    name.as_str().split('-').map(part).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::http_client::WrittenNames;

    fn reply(body: &'static [u8]) -> Reply {
        let (headers, written_names) = (HeaderMap::new(), WrittenNames::new());
        Reply { status: 200, headers, written_names, body: Bytes::from_static(body) }
    }

    async fn list(bytes_max: usize, bodies: &[&'static [u8]]) -> String {
        let memory = MemoryBudget::new(4 << 20);
        let mut answers = Answers::new(&memory).expect("memory");
        answers.bytes_max = bytes_max;
        for body in bodies {
            answers = answers.add(reply(body)).await.expect("memory");
        }
        let (text, held) = answers.finish().expect("memory");
        assert_eq!((held.bytes(), memory.held()), (text.capacity() as u64, held.bytes()));
        String::from_utf8(text).expect("a text")
    }

    #[tokio::test]
    async fn escapes_count_and_what_does_not_fit_is_replaced() {
        let refusal = r#"{"reason":"the answers are too long","status":502}"#;
        let refusal: serde_json::Value = serde_json::from_str(refusal).unwrap();
        for (body, fits) in [(&[b'a'; 20], true), (&[1; 20], false)] {
            let text = list(130, &[body, b"b"]).await;
            let answers: Vec<serde_json::Value> = serde_json::from_str(&text).unwrap();
            assert_eq!(answers.len(), 2);
            assert_eq!(answers[0] != refusal, fits, "{text}");
            assert_eq!(answers[1]["body"], "b", "{text}");
        }
        assert_eq!(list(9, &[]).await, "[]\n");
    }

    #[tokio::test]
    async fn without_memory_nothing_is_kept() {
        let memory = MemoryBudget::new(READ_BYTES + 1_000);
        let answers = Answers::new(&memory).expect("memory");
        assert!(Answers::new(&memory).is_err());
        let long: &'static [u8] = &[b'x'; 50_000];
        assert_eq!(answers.add(reply(long)).await.err(), Some(NoMemory));
        assert_eq!(memory.held(), 0);
    }
}
