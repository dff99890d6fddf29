//! Plugin `cryptorResponse`: decrypts or encrypts fields of a response body.

use tollhouse_plugin as plugin;
use tollhouse_plugin::response::{BodyFilter, Effect as BodyEffect, ResponseContext};
use tollhouse_plugin::{AnswerBody, Codings, FilterFailure, HeaderEdits, HeldBody, Piece};
use tollhouse_shenyu::answer::Statuses;

use crate::plugin::prelude::*;
use crate::reply::reply;
use crate::shared::cryptor::{self, CryptOutcome, CryptorRule};
use crate::shared::edits::EDITED_BODY_BYTES_MAX;

#[derive(Debug)]
pub(crate) struct CryptorResponse(CryptorRule);

impl ShenyuPlugin for CryptorResponse {
    const ROW: Row = Row::protecting("cryptorResponse", 410)
        .at(Stage::Response)
        .with(Seed::new("25", "Cryptor").enabled());
    const EFFECT: Effect = Effect::Edits;

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        let rule = cryptor::compile(place, Answer::CryptorResponseLacks)?;
        Ok(rule.map_or(Compiled::Pass, |rule| Self(rule).into()))
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        cryptor::check(handle)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        run.cx.read_answer_in(Codings::IDENTITY);
        let edit: Arc<Self> = Arc::clone(self);
        run.turn.aftermath.answer_edits.push(edit);
        Verdict::Next
    }
}

impl ResponseEdit for CryptorResponse {
    fn edit(self: Arc<Self>, statuses: Statuses, cx: &mut ResponseContext<'_>) {
        crypt(&self, statuses, cx);
    }

    fn edit_answer(&self, statuses: Statuses, answer: &mut plugin::Answer<'_>) {
        let body = match &answer.body {
            AnswerBody::Text(text) => text.to_vec(),
            AnswerBody::Json(value) => value.to_string().into_bytes(),
            AnswerBody::Shared(bytes) => bytes.to_vec(),
            AnswerBody::None | AnswerBody::Empty | AnswerBody::LeftOut(_) => return,
        };
        match crypted_answer(&self.0, &body) {
            Ok(None) => {}
            Ok(Some(body)) => answer.body = AnswerBody::Text(body.into()),
            Err(refusal) => *answer = reply(refusal, None, statuses),
        }
    }
}

/// Returns the new body of a response; `None` leaves it unchanged. A body that must be encrypted
/// but cannot be read is an error, because it must not be sent.
fn crypted_answer(rule: &CryptorRule, body: &[u8]) -> Result<Option<Vec<u8>>, Answer> {
    match rule.crypt(body) {
        CryptOutcome::FieldMissing => Ok(None),
        CryptOutcome::NoObject if !rule.encrypts() => Ok(None),
        CryptOutcome::Body(body) => Ok(Some(body)),
        CryptOutcome::NoObject
        | CryptOutcome::NotDecrypted
        | CryptOutcome::NotEncrypted
        | CryptOutcome::TooHeavy => Err(unreadable(rule)),
    }
}

/// Returns the answer that replaces an unreadable body.
fn unreadable(rule: &CryptorRule) -> Answer {
    if rule.encrypts() { Answer::EncryptionFailed } else { Answer::DecryptionFailed }
}

fn crypt(rule: &Arc<CryptorResponse>, statuses: Statuses, cx: &mut ResponseContext<'_>) {
    let facts = cx.facts();
    if !facts.has_body || facts.content_length == Some(0) {
        return;
    }
    let is_too_long =
        facts.content_length.is_some_and(|bytes| bytes > EDITED_BODY_BYTES_MAX as u64);
    // A compressed body could not be encrypted and would pass as it is.
    let is_unreadable = is_too_long || cx.header("content-encoding").is_some();
    if is_unreadable {
        cx.remove_header("content-encoding");
        cx.set_header("Content-Type", b"application/json");
        cx.set_status(unreadable(&rule.0).status(statuses));
    }
    let kind = cx.header("content-type").unwrap_or(b"application/json").to_vec();
    if !is_unreadable {
        // ShenYu sets this type after it has decrypted or encrypted the fields.
        cx.set_header("Content-Type", b"text/plain");
    }
    let (rule, held) = (Arc::clone(rule), cx.hold_body());
    let filter = CryptFilter { rule, held, is_unreadable, kind, is_refused: false };
    cx.filter_body(BodyEffect::Rewrites, Box::new(filter));
}

/// Body filter that buffers the body and decrypts or encrypts its fields. An unreadable body is
/// replaced by an answer.
struct CryptFilter {
    rule: Arc<CryptorResponse>,
    held: HeldBody,
    is_unreadable: bool,
    /// Media type of the node's body; an answer that replaces the body keeps it.
    kind: Vec<u8>,
    /// Whether the body was replaced by an answer.
    is_refused: bool,
}

impl BodyFilter for CryptFilter {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        if self.held.len() + input.len() > EDITED_BODY_BYTES_MAX {
            self.is_unreadable = true;
        }
        if self.is_unreadable {
            drop(self.held.take());
        } else {
            self.held.push(input);
        }
        if !piece.is_last() || self.held.has_failed() {
            return;
        }
        let held = self.held.take();
        let crypted = match self.is_unreadable {
            true => Err(unreadable(&self.rule.0)),
            false => crypted_answer(&self.rule.0, &held),
        };
        match crypted {
            Ok(crypted) => out.extend(crypted.unwrap_or(held)),
            Err(answer) => {
                self.is_refused = true;
                out.extend(answer.body(None).into_bytes());
            }
        }
    }

    fn work_bytes(&self, input_bytes: usize, piece: Piece) -> usize {
        if piece.is_last() { self.held.len() + input_bytes } else { 0 }
    }

    fn failure(&self) -> Option<FilterFailure> {
        self.held.has_failed().then_some(FilterFailure::NoMemory)
    }

    fn holds_body(&self) -> bool {
        true
    }

    fn late_head_edits(&self) -> Option<HeaderEdits> {
        self.is_refused.then(|| {
            let mut edits = HeaderEdits::default();
            edits.set("Content-Type", &self.kind);
            edits
        })
    }
}
