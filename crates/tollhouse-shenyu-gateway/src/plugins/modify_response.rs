//! Plugin `modifyResponse`: changes status, headers and JSON body of a node's response.

use tollhouse_plugin::response::{BodyFilter, Effect as BodyEffect, ResponseContext};
use tollhouse_plugin::{Codings, FilterFailure, HeldBody, Piece};
use tollhouse_shenyu::answer::Statuses;

use crate::plugin::prelude::*;
use crate::shared::edits::{BodyEdit, BodyEdits, EDITED_BODY_BYTES_MAX, Edits, texts};

/// Rule of `modifyResponse`.
#[derive(Debug, Clone, Default)]
pub struct ResponseRule {
    /// Changes of headers.
    pub headers: Edits,
    /// Status that replaces the node's.
    pub status: Option<u16>,
    /// Changes of the body.
    pub body: BodyEdits,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResponseHandle {
    #[serde(deserialize_with = "texts")]
    add_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    set_headers: Vec<(String, String)>,
    #[serde(deserialize_with = "texts")]
    replace_header_keys: Vec<(String, String)>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_header_keys: Vec<String>,
    #[serde(deserialize_with = "lenient::integer")]
    status_code: Option<i64>,
    #[serde(deserialize_with = "lenient::or_default")]
    add_body_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    replace_body_keys: Vec<BodyEdit>,
    #[serde(deserialize_with = "lenient::or_default")]
    remove_body_keys: Vec<String>,
}

impl ResponseRule {
    /// Reads a rule's handle; a status of 0 means no change.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the status or a path is invalid.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: ResponseHandle = handle::read(handle)?;
        let status = handle.status_code.filter(|status| *status != 0).map(|status| {
            let status = u16::try_from(status).ok().filter(|it| (200..=599).contains(it));
            status.ok_or_else(|| {
                HandleError::Malformed("`statusCode` must be a status from 200 to 599".to_owned())
            })
        });
        Ok(Self {
            headers: Edits {
                add: handle.add_headers,
                set: handle.set_headers,
                rename: handle.replace_header_keys,
                remove: handle.remove_header_keys,
            },
            status: status.transpose()?,
            body: BodyEdits::new(
                handle.add_body_keys,
                handle.replace_body_keys,
                &handle.remove_body_keys,
            )?,
        })
    }
}

impl ShenyuPlugin for ResponseRule {
    const ROW: Row = Row::harmless("modifyResponse", 220)
        .at(Stage::Response)
        .with(Seed::new("23", "HttpProcess"));
    const EFFECT: Effect = Effect::Edits;

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        if !self.body.is_empty() {
            run.cx.read_answer_in(Codings::IDENTITY);
        }
        let edit: Arc<Self> = Arc::clone(self);
        run.turn.aftermath.answer_edits.push(edit);
        Verdict::Next
    }
}

impl ResponseEdit for ResponseRule {
    fn edit(self: Arc<Self>, _: Statuses, cx: &mut ResponseContext<'_>) {
        modify(&self, cx);
    }
}

fn modify(rule: &Arc<ResponseRule>, cx: &mut ResponseContext<'_>) {
    // Read before the headers change, because they tell whether the body can be parsed.
    let kind = cx.header("content-type").map(<[u8]>::to_vec);
    let lower = kind.as_deref().map(<[u8]>::to_ascii_lowercase);
    let says_json = lower.as_ref().is_some_and(|kind| kind.windows(4).any(|word| word == b"json"));
    let may_be_json = lower.is_none_or(|kind| {
        says_json || (kind.starts_with(b"text/") && !kind.starts_with(b"text/event-stream"))
    });
    if may_be_json && !rule.body.is_empty() {
        // An unchanged body could reveal members that the rule removes.
        if !cx.require_readable(Codings::IDENTITY, EDITED_BODY_BYTES_MAX as u64) {
            return;
        }
        let (rule, held) = (Arc::clone(rule), cx.hold_body());
        let filter = JsonFilter { rule, held, says_json, is_unreadable: false };
        cx.filter_body(BodyEffect::Rewrites, Box::new(filter));
    }
    let edits = &rule.headers;
    for (name, value) in &edits.add {
        cx.add_header(name, value.as_bytes());
    }
    for (name, value) in &edits.set {
        cx.set_header(name, value.as_bytes());
    }
    // Despite its name, ShenYu's `replaceHeaderKeys` replaces values.
    for (name, value) in &edits.rename {
        if cx.header(name).is_some() {
            cx.set_header(name, value.as_bytes());
        }
    }
    for name in &edits.remove {
        cx.remove_header(name);
    }
    if may_be_json && cx.facts().has_body && cx.facts().content_length != Some(0) {
        // ShenYu sets the type of a body after all other changes.
        cx.set_header("Content-Type", kind.as_deref().unwrap_or(b"application/json"));
    }
    if let Some(status) = rule.status {
        cx.set_status(status);
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
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        self.is_unreadable |= self.held.len() + input.len() > EDITED_BODY_BYTES_MAX;
        if self.is_unreadable {
            return;
        }
        self.held.push(input);
        if !piece.is_last() || self.held.has_failed() {
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

    fn work_bytes(&self, input_bytes: usize, piece: Piece) -> usize {
        if piece.is_last() { self.held.len() + input_bytes } else { 0 }
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_blank_handle_changes_nothing() {
        for handle in [None, Some(""), Some("{}"), Some(r#"{"header":null,"cookie":{}}"#)] {
            let rule = ResponseRule::read(handle).expect("it is one");
            assert!(rule.headers.is_empty() && rule.body.is_empty() && rule.status.is_none());
        }
        for handle in [r#"{"statusCode":99}"#, r#"{"removeBodyKeys":["a["]}"#] {
            assert!(ResponseRule::read(Some(handle)).is_err(), "{handle}");
        }
    }

    #[test]
    fn bodies_are_edited_where_paths_lead() {
        let handle = json!({
            "addBodyKeys": [{"path": "$.a", "key": "n", "value": "v"}, {"path": "$.list[*]", "key": "x", "value": "1"}],
            "replaceBodyKeys": [{"path": "$", "key": "old", "value": "new"}, {"path": "$.none", "key": "p", "value": "q"}],
            "removeBodyKeys": ["$.gone", "$.list[0].y", "$.nothing.here"],
        });
        let rule = ResponseRule::read(Some(&handle.to_string())).expect("it is one");
        let body = json!({"a": {}, "old": 1, "gone": 2, "list": [{"y": 3}, {"y": 4}]});
        let edited = rule.body.apply_to_text(body.to_string().as_bytes()).expect("it is JSON");
        let edited: Value = serde_json::from_slice(&edited).expect("JSON");
        let expected = json!({"a": {"n": "v"}, "new": 1, "list": [{"x": "1"}, {"y": 4, "x": "1"}]});
        assert_eq!(edited, expected);
        assert_eq!(rule.body.apply_to_text(b"no JSON"), None);
    }
}
