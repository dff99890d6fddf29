//! Execution of `request`, `paramMapping`, `modifyResponse` and the two cryptor plugins: changes of
//! requests and responses.

use std::sync::Arc;

use tollhouse_plugin as plugin;
use tollhouse_plugin::response::{BodyFilter, Effect, ResponseContext, Source};
use tollhouse_plugin::{AnswerBody, Codings, FilterFailure, HeldBody, RequestContext};
use tollhouse_shenyu::answer::{Answer, Statuses};
use tollhouse_shenyu::cryptor::{Crypted, CryptorRule};
use tollhouse_shenyu::shaping::{BodyEdits, Edits, RequestRule, ResponseRule, Unique};

use crate::reply::reply;
use crate::turn::Turn;
use crate::{grpc, guard};

/// Maximum length of a body that is changed, because it is buffered. Longer requests pass
/// unchanged, longer responses are refused.
pub(crate) const EDITED_BODY_BYTES_MAX: usize = 8 << 20;

/// Changes a request by a rule of the plugin `request`.
pub(crate) fn edit_request(rule: &RequestRule, cx: &mut RequestContext<'_>, turn: &mut Turn) {
    edit_headers(&rule.headers, cx);
    if !rule.cookies.is_empty() {
        edit_cookies(&rule.cookies, cx);
    }
    if !rule.parameters.is_empty() {
        edit_parameters(&rule.parameters, turn);
    }
    if rule.preserve_host {
        let host = cx.exchange().client_header(b"host").map(<[u8]>::to_vec);
        cx.edits().host = host;
    }
    if let Some((names, unique)) = &rule.unique_answer {
        turn.aftermath.answer_edits.push(AnswerEdit::Unique(names.clone(), *unique));
    }
    for name in rule.unique_request.iter().flat_map(|(names, _)| names) {
        let values = cx.headers_named(name);
        if let Some((_, unique)) = &rule.unique_request
            // A single value is left alone, because re-adding it would change its position.
            && values.len() > 1
        {
            cx.remove_header(name);
            for value in unique.choose(values) {
                cx.edits().headers.add(name, &value);
            }
        }
    }
}

fn edit_headers(edits: &Edits, cx: &mut RequestContext<'_>) {
    for (name, value) in &edits.add {
        cx.edits().headers.add(name, value.as_bytes());
    }
    for (name, value) in &edits.set {
        cx.set_header(name, value.as_bytes());
    }
    for (old, new) in &edits.rename {
        let values = cx.headers_named(old);
        if values.is_empty() {
            continue;
        }
        cx.remove_header(old);
        cx.remove_header(new);
        for value in values {
            cx.edits().headers.add(new, &value);
        }
    }
    for name in &edits.remove {
        cx.remove_header(name);
    }
}

fn edit_cookies(edits: &Edits, cx: &mut RequestContext<'_>) {
    let lines = cx.headers_named("cookie");
    let text: Vec<_> = lines.iter().map(|line| String::from_utf8_lossy(line)).collect();
    let pairs = text.iter().flat_map(|line| line.split(';')).map(str::trim);
    let mut cookies: Vec<(String, String)> = pairs
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    edits.apply(&mut cookies, |one, other| one == other);
    if cookies.is_empty() {
        return cx.remove_header("cookie");
    }
    let cookies: Vec<String> =
        cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
    cx.set_header("cookie", cookies.join("; ").as_bytes());
}

fn edit_parameters(edits: &Edits, turn: &mut Turn) {
    let parameters = turn.query.as_deref().map(guard::parameters).unwrap_or_default();
    let mut parameters: Vec<(String, String)> = parameters
        .into_iter()
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect();
    let before = parameters.clone();
    edits.apply(&mut parameters, |one, other| one == other);
    if parameters != before {
        turn.set_query(encode(&parameters));
    }
}

/// Encodes names and values as a query or form: everything except unreserved characters (RFC 3986
/// §2.1).
fn encode(pairs: &[(String, String)]) -> Vec<u8> {
    let mut made = Vec::new();
    let append = |made: &mut Vec<u8>, text: &str| {
        for byte in text.bytes() {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                made.push(byte);
            } else {
                made.extend_from_slice(format!("%{byte:02X}").as_bytes());
            }
        }
    };
    for (place, (name, value)) in pairs.iter().enumerate() {
        made.extend_from_slice(if place > 0 { b"&" } else { b"" });
        append(&mut made, name);
        made.push(b'=');
        append(&mut made, value);
    }
    made
}

/// Edits a body of JSON or of a form; others, and those that are too long, stay.
///
/// # Errors
/// The answer to a request that declares JSON and has no body.
pub(crate) async fn edit_body(
    edits: &Arc<BodyEdits>,
    cx: &mut RequestContext<'_>,
) -> Result<(), Answer> {
    let kind = cx.header("content-type").map(|kind| kind.to_ascii_lowercase()).unwrap_or_default();
    let is_form = kind.starts_with(b"application/x-www-form-urlencoded");
    let is_json = kind.starts_with(b"application/json");
    if !is_json && (edits.is_empty() || !is_form) {
        return Ok(());
    }
    if cx.read_body(EDITED_BODY_BYTES_MAX as u64).await.is_err() {
        return Ok(());
    }
    if cx.body().is_empty() {
        return if is_json { Err(Answer::JsonBodyMissing) } else { Ok(()) };
    }
    let edits = Arc::clone(edits);
    let edited = cx.examine_body(move |body| match is_form {
        true => Some(edit_form(&edits, body)),
        false => edits.apply_to_text(body),
    });
    if let Ok(Some(body)) = edited.await {
        cx.edits().body = Some(body);
        if is_form && !kind.contains(&b';') {
            cx.set_header("Content-Type", b"application/x-www-form-urlencoded;charset=UTF-8");
        }
    }
    Ok(())
}

fn edit_form(edits: &BodyEdits, body: &[u8]) -> Vec<u8> {
    let members = guard::parameters(body).into_iter();
    let mut form: serde_json::Value = members
        .map(|(name, value)| (name.into_owned(), serde_json::Value::from(value.into_owned())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    edits.apply(&mut form);
    let members = form.as_object().into_iter().flatten();
    let text = |value: &serde_json::Value| match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    encode(&members.map(|(name, value)| (name.clone(), text(value))).collect::<Vec<_>>())
}

/// Change of a response by a plugin after the proxy.
#[derive(Debug, Clone)]
pub(crate) enum AnswerEdit {
    Modify(Arc<ResponseRule>),
    /// Headers of which only some lines remain.
    Unique(Vec<String>, Unique),
    /// Fields of the body to decrypt or encrypt.
    Crypt(Arc<CryptorRule>),
    /// gRPC messages to convert to JSON.
    Grpc,
}

/// Decrypts or encrypts fields of a request body. A body that is too long or contains none of the
/// fields is refused; a request without a body passes.
///
/// # Errors
///
/// The answer with which the request is refused.
pub(crate) async fn crypt_body(
    rule: &Arc<CryptorRule>,
    cx: &mut RequestContext<'_>,
) -> Result<(), Answer> {
    if cx.read_body(EDITED_BODY_BYTES_MAX as u64).await.is_err() {
        return Err(Answer::RequestTooLarge);
    }
    if cx.body().is_empty() {
        return Ok(());
    }
    let rule = Arc::clone(rule);
    let crypted = cx.examine_body(move |body| rule.crypt(body)).await;
    match crypted.map_err(|_| Answer::RequestTooLarge)? {
        Crypted::FieldMissing | Crypted::NoObject => {
            return Err(Answer::CryptorRequestLacks("fieldNames"));
        }
        Crypted::Body(body) => cx.edits().body = Some(body),
        Crypted::NotDecrypted => return Err(Answer::DecryptionFailed),
        Crypted::NotEncrypted => return Err(Answer::EncryptionFailed),
        Crypted::TooHeavy => return Err(Answer::RequestTooLarge),
    }
    Ok(())
}

/// Returns the new body of a response; `None` leaves it unchanged. A body that must be encrypted
/// but cannot be read is an error, because it must not be sent.
fn crypted_answer(rule: &CryptorRule, body: &[u8]) -> Result<Option<Vec<u8>>, Answer> {
    match rule.crypt(body) {
        Crypted::FieldMissing => Ok(None),
        Crypted::NoObject if !rule.encrypts() => Ok(None),
        Crypted::Body(body) => Ok(Some(body)),
        Crypted::NoObject | Crypted::NotDecrypted | Crypted::NotEncrypted | Crypted::TooHeavy => {
            Err(unreadable(rule))
        }
    }
}

/// Returns the answer that replaces an unreadable body.
fn unreadable(rule: &CryptorRule) -> Answer {
    if rule.encrypts() { Answer::EncryptionFailed } else { Answer::DecryptionFailed }
}

/// Decrypts or encrypts fields of a response that a plugin created from a call.
pub(crate) fn crypt_answer(
    edits: &[AnswerEdit],
    answer: &mut plugin::Answer<'_>,
    statuses: Statuses,
) {
    for edit in edits {
        let AnswerEdit::Crypt(rule) = edit else { continue };
        let body = match &answer.body {
            AnswerBody::Text(text) => text.to_vec(),
            AnswerBody::Json(value) => value.to_string().into_bytes(),
            AnswerBody::Shared(bytes) => bytes.to_vec(),
            AnswerBody::None | AnswerBody::LeftOut(_) => continue,
        };
        match crypted_answer(rule, &body) {
            Ok(None) => {}
            Ok(Some(body)) => answer.body = AnswerBody::Text(body.into()),
            Err(refusal) => *answer = reply(refusal, None, statuses),
        }
    }
}

fn crypt(rule: &Arc<CryptorRule>, statuses: Statuses, cx: &mut ResponseContext<'_>) {
    let facts = cx.facts();
    if !facts.has_body {
        return;
    }
    let is_too_long =
        facts.content_length.is_some_and(|bytes| bytes > EDITED_BODY_BYTES_MAX as u64);
    // A compressed body could not be encrypted and would pass as it is.
    let is_unreadable = is_too_long || cx.header("content-encoding").is_some();
    if is_unreadable {
        cx.remove_header("content-encoding");
        cx.set_header("Content-Type", b"application/json");
        cx.set_status(unreadable(rule).status(statuses));
    }
    if !is_unreadable {
        // The type that ShenYu gives a body once its fields are taken care of.
        cx.set_header("Content-Type", b"text/plain");
    }
    let filter = CryptFilter { rule: Arc::clone(rule), held: cx.hold_body(), is_unreadable };
    cx.filter_body(Effect::Rewrites, Box::new(filter));
}

/// Body filter that buffers the body and decrypts or encrypts its fields. An unreadable body is
/// replaced by an answer.
struct CryptFilter {
    rule: Arc<CryptorRule>,
    held: HeldBody,
    is_unreadable: bool,
}

impl BodyFilter for CryptFilter {
    fn filter(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        if self.held.len() + input.len() > EDITED_BODY_BYTES_MAX {
            self.is_unreadable = true;
        }
        if self.is_unreadable {
            drop(self.held.take());
        } else {
            self.held.push(input);
        }
        if !is_last || self.held.has_failed() {
            return;
        }
        let held = self.held.take();
        let crypted = match self.is_unreadable {
            true => Err(unreadable(&self.rule)),
            false => crypted_answer(&self.rule, &held),
        };
        match crypted {
            Ok(crypted) => out.extend(crypted.unwrap_or(held)),
            Err(answer) => out.extend(answer.body(None).into_bytes()),
        }
    }

    fn work_bytes(&self, input_bytes: usize, is_last: bool) -> usize {
        if is_last { self.held.len() + input_bytes } else { 0 }
    }

    fn failure(&self) -> Option<FilterFailure> {
        self.held.has_failed().then_some(FilterFailure::NoMemory)
    }

    fn holds_body(&self) -> bool {
        true
    }
}

/// Applies a change to a response, if a node sent it.
pub(crate) fn edit_answer(edit: &AnswerEdit, statuses: Statuses, cx: &mut ResponseContext<'_>) {
    if cx.source() != Source::Upstream {
        return;
    }
    match edit {
        AnswerEdit::Crypt(rule) => crypt(rule, statuses, cx),
        AnswerEdit::Unique(names, unique) => {
            for name in names {
                let values = values_named(cx, name);
                if values.len() > 1 {
                    replace(cx, name, unique.choose(values));
                }
            }
        }
        AnswerEdit::Modify(rule) => modify(rule, cx),
        AnswerEdit::Grpc => grpc::answer(Answer::RpcFailed.status(statuses), cx),
    }
}

fn modify(rule: &Arc<ResponseRule>, cx: &mut ResponseContext<'_>) {
    // Read before the headers change, because they tell whether the body can be parsed.
    let kind = cx.header("content-type").map(<[u8]>::to_ascii_lowercase);
    let says_json = kind.as_ref().is_some_and(|kind| kind.windows(4).any(|word| word == b"json"));
    let may_be_json = kind.is_none_or(|kind| {
        says_json || (kind.starts_with(b"text/") && !kind.starts_with(b"text/event-stream"))
    });
    if may_be_json && !rule.body.is_empty() {
        // An unchanged body could reveal members that the rule removes.
        if !cx.require_readable(Codings::IDENTITY, EDITED_BODY_BYTES_MAX as u64) {
            return;
        }
        let (rule, held) = (Arc::clone(rule), cx.hold_body());
        let filter = JsonFilter { rule, held, says_json, is_unreadable: false };
        cx.filter_body(Effect::Rewrites, Box::new(filter));
    }
    let edits = &rule.headers;
    for (name, value) in &edits.add {
        cx.add_header(name, value.as_bytes());
    }
    for (name, value) in &edits.set {
        cx.set_header(name, value.as_bytes());
    }
    for (old, new) in &edits.rename {
        let values = values_named(cx, old);
        if !values.is_empty() {
            cx.remove_header(old);
            replace(cx, new, values);
        }
    }
    for name in &edits.remove {
        cx.remove_header(name);
    }
    if let Some(status) = rule.status {
        cx.set_status(status);
    }
}

fn values_named(cx: &ResponseContext<'_>, name: &str) -> Vec<Vec<u8>> {
    let mut values = Vec::new();
    cx.each_header(&mut |known, value| {
        if known.eq_ignore_ascii_case(name.as_bytes()) {
            values.push(value.to_vec());
        }
    });
    values
}

fn replace(cx: &mut ResponseContext<'_>, name: &str, values: Vec<Vec<u8>>) {
    cx.remove_header(name);
    for value in values {
        cx.add_header(name, &value);
    }
}

/// Body filter that buffers the body and changes it if it is JSON. Other text passes unchanged. A
/// body that is declared as JSON but cannot be parsed fails.
struct JsonFilter {
    rule: Arc<ResponseRule>,
    held: HeldBody,
    says_json: bool,
    is_unreadable: bool,
}

impl BodyFilter for JsonFilter {
    fn filter(&mut self, input: &[u8], is_last: bool, out: &mut Vec<u8>) {
        self.is_unreadable |= self.held.len() + input.len() > EDITED_BODY_BYTES_MAX;
        if self.is_unreadable {
            return;
        }
        self.held.push(input);
        if !is_last || self.held.has_failed() {
            return;
        }
        let held = self.held.take();
        if held.trim_ascii().is_empty() {
            return out.extend(held);
        }
        match self.rule.body.apply_to_text(&held) {
            Some(edited) => out.extend(edited),
            None if self.says_json => self.is_unreadable = true,
            None => out.extend(held),
        }
    }

    fn work_bytes(&self, input_bytes: usize, is_last: bool) -> usize {
        if is_last { self.held.len() + input_bytes } else { 0 }
    }

    fn failure(&self) -> Option<FilterFailure> {
        match self.is_unreadable {
            true => Some(FilterFailure::Unreadable),
            false => self.held.has_failed().then_some(FilterFailure::NoMemory),
        }
    }

    fn holds_body(&self) -> bool {
        true
    }
}
