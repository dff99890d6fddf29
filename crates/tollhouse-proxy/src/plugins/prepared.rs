//! Response of a plugin, moved out of the plugin so that it can be sent without a borrow.

use bytes::Bytes;
use serde_json::Value;
use tollhouse_plugin::answer::TEXT_PLAIN;
use tollhouse_plugin::{Answer, AnswerBody, HeaderEdits, RefusalKind};

use super::chain::PluginStep;
use crate::offload;

/// Capacity in bytes kept for the next body; a larger one is freed.
const BODY_KEPT_BYTES_MAX: usize = 64 * 1024;

/// A response of the gateway's own, ready to be sent.
#[derive(Debug, Default)]
pub(crate) struct PreparedResponse {
    pub status: u16,
    pub headers: HeaderEdits,
    pub kind: Kind,
    /// The body, if `place` is `Own`.
    pub body: Vec<u8>,
    pub place: Place,
    /// Reason of a refusal; `None` for any other response.
    pub refusal: Option<RefusalKind>,
    /// Name of the plugin that refused; empty if none did.
    pub refused_by: String,
}

/// Place of the bytes of a response body.
#[derive(Debug, Default)]
pub(crate) enum Place {
    /// The body is in `body` of the prepared response.
    #[default]
    Own,
    /// The body is shared with other owners, such as a cache, and sent without a copy.
    Shared(Bytes),
    /// The body is left out, because the request is HEAD. Holds the length that it would have, if
    /// known.
    LeftOut(Option<u64>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Kind {
    /// The response has a status only; an error gets the gateway's page.
    #[default]
    StatusOnly,
    /// The response has no body, even for an error.
    Empty,
    /// The body is sent as plain text, unless the headers set a content type.
    Text,
}

impl PreparedResponse {
    /// Clears the response and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.status = 0;
        self.headers.clear();
        self.kind = Kind::StatusOnly;
        self.body.clear();
        if self.body.capacity() > BODY_KEPT_BYTES_MAX {
            offload::give_back(std::mem::take(&mut self.body), None);
        }
        self.place = Place::Own;
        self.refusal = None;
        self.refused_by.clear();
    }

    /// Takes over the answer of a plugin, and its name if the answer is a refusal.
    pub(crate) fn fill_by(&mut self, step: &PluginStep, answer: &Answer<'_>) {
        self.fill(answer, step.error_response.as_ref());
        self.blame(step, answer);
    }

    /// Notes the name of the plugin of `step`, if the response is a refusal.
    pub(crate) fn blame(&mut self, step: &PluginStep, answer: &Answer<'_>) {
        if self.refusal.is_some_and(RefusalKind::is_a_decision) {
            self.refused_by.push_str(answer.refused_by.as_deref().unwrap_or(step.name()));
        }
    }

    /// Returns a copy of the response, for plugins that rewrite it.
    pub(crate) fn to_answer(&self) -> Answer<'static> {
        let body = match (self.kind, &self.place) {
            (Kind::StatusOnly, _) => AnswerBody::None,
            (Kind::Empty, _) => AnswerBody::Empty,
            (Kind::Text, Place::LeftOut(bytes)) => AnswerBody::LeftOut(*bytes),
            (Kind::Text, Place::Own | Place::Shared(_)) => {
                AnswerBody::Text(self.bytes().to_vec().into())
            }
        };
        let refused_by = (!self.refused_by.is_empty()).then(|| self.refused_by.as_str().into());
        let (refusal, bare) = (self.refusal, Answer::status(self.status));
        let lines = self
            .headers
            .lines()
            .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.to_vec()));
        let answer = Answer { body, refusal, refused_by, ..bare };
        lines.fold(answer, |answer, (name, value)| answer.with_header(name, value))
    }

    /// Sets a response of plain text.
    pub(crate) fn set(&mut self, status: u16, text: &[u8]) {
        self.clear();
        self.status = status;
        self.set_text(text);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.place {
            Place::Own => &self.body,
            Place::Shared(bytes) => bytes,
            Place::LeftOut(_) => &[],
        }
    }

    /// Returns the length of the body declared in the head.
    pub(crate) fn declared_bytes(&self) -> Option<u64> {
        match &self.place {
            Place::LeftOut(bytes) => *bytes,
            Place::Own | Place::Shared(_) => Some(self.bytes().len() as u64),
        }
    }

    /// Takes over `answer`. If it is an error, `error_response` replaces its body.
    pub(crate) fn fill(&mut self, answer: &Answer<'_>, error_response: Option<&Value>) {
        self.clear();
        self.status = answer.status;
        // ShenYu refuses with 200, and the code in the body.
        let counts = answer.status >= 400 || answer.refused_by.is_some();
        self.refusal = answer.refusal.filter(|_| counts);
        for (name, value) in answer.shared_headers.iter().flat_map(|lines| lines.iter()) {
            self.headers.add(name, value);
        }
        for (name, value) in &answer.headers {
            self.headers.add(name, value);
        }
        match error_response.filter(|_| answer.status >= 400) {
            Some(Value::String(text)) => self.set_text(text.as_bytes()),
            Some(value) => self.set_json(value),
            None => match &answer.body {
                AnswerBody::None => {}
                AnswerBody::Empty => self.kind = Kind::Empty,
                AnswerBody::Text(text) => self.set_text(text),
                AnswerBody::Json(value) => self.set_json(value),
                AnswerBody::Shared(bytes) => {
                    self.kind = Kind::Text;
                    self.place = Place::Shared(bytes.clone());
                }
                AnswerBody::LeftOut(bytes) => {
                    self.kind = Kind::Text;
                    self.place = Place::LeftOut(*bytes);
                }
            },
        }
    }

    fn set_text(&mut self, text: &[u8]) {
        self.kind = Kind::Text;
        self.body.extend_from_slice(text);
    }

    fn set_json(&mut self, value: &Value) {
        self.kind = Kind::Text;
        // Writing into memory cannot fail.
        let _ = serde_json::to_writer(&mut self.body, value);
        self.body.push(b'\n');
    }

    /// `Content-Type` for the body; empty if the headers contain it or the body has none.
    pub(crate) fn content_type(&self) -> &'static str {
        match self.kind {
            Kind::Text if self.headers.find(b"content-type").is_none() => TEXT_PLAIN,
            _ => "",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_body_is_sent_from_where_it_lies_and_let_go_afterwards() {
        let cached = Bytes::from(vec![b'x'; 100_000]);
        let mut prepared = PreparedResponse::default();
        let answer = Answer { body: AnswerBody::Shared(cached.clone()), ..Answer::status(200) };
        prepared.fill(&answer, None);
        drop(answer);
        assert_eq!(prepared.bytes().as_ptr(), cached.as_ptr());
        assert_eq!(prepared.declared_bytes(), Some(100_000));
        // No copy was made, and the shared body is released once the response is sent.
        assert_eq!(prepared.body.capacity(), 0);
        assert!(!cached.is_unique());
        prepared.clear();
        assert!(cached.is_unique());
    }
}
