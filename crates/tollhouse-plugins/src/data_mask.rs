//! Hides parts of requests in logs: query arguments, headers and fields of bodies.
//!
//! Nodes and clients are not affected. Loggers and the access log see the masked request.
//!
//! # Example
//! ```json
//! {
//!   "request": [
//!     {"type": "query", "name": "token", "action": "remove"},
//!     {"type": "header", "name": "X-Card", "action": "regex", "regex": "^\\d+(\\d{4})$", "value": "****$1"},
//!     {"type": "body", "body_format": "json", "name": "$.users[*].password", "action": "replace", "value": "***"}
//!   ]
//! }
//! ```
//!
//! # Answers
//! - none of its own
//!
//! # Notes
//! `regex` replaces the first match; `$1` in `value` stands for a group. Names of JSON fields are
//! JSONPaths without filters. A body that cannot be masked because it is not of the stated format,
//! or longer than `max_body_size`, is not logged at all. Traces record what the client sent.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_model::variable::{Variable, decode_argument};
use tollhouse_plugin::{Category, ConfError, LogContext, Phases, Plugin, Scope};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns;
use crate::shared::confs::substitute::{self, Replacement};

use self::path::{FieldPath, Key};

mod path;

/// Configuration of `data-mask`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Masks, applied in order.
    #[serde(default)]
    pub request: Vec<MaskConfig>,
    /// Longest body that is masked, in bytes; 1 MiB by default. A longer one is not logged.
    #[serde(default = "default_body_bytes_max")]
    pub max_body_size: u64,
    /// Number of fields of a form that are logged; 100 by default, 0 for all.
    #[serde(default = "default_fields_max")]
    #[schemars(range(min = 0))]
    pub max_req_post_args: u64,
}

defaults! {
    default_body_bytes_max: u64 = 1 << 20;
    default_fields_max: u64 = 100;
}

/// Part of a request to mask, with the replacement.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct MaskConfig {
    /// Part of the request.
    #[serde(rename = "type")]
    pub part: Part,
    /// Format of the body; required for masks of bodies.
    pub body_format: Option<BodyFormat>,
    /// Name of the argument, header or form field, or JSONPath of the field.
    pub name: String,
    /// Way of hiding the value.
    pub action: ActionKind,
    /// Regular expression for the action `regex`.
    pub regex: Option<String>,
    /// New value, for the actions `regex` and `replace`.
    pub value: Option<String>,
}

/// Part of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    Query,
    Header,
    Body,
}

/// Format of a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BodyFormat {
    Json,
    Urlencoded,
}

/// Way of hiding a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Replaces the first match of a regular expression.
    Regex,
    /// Replaces the whole value.
    Replace,
    /// Removes the field.
    Remove,
}

#[derive(Debug)]
pub struct DataMask {
    query: Vec<(String, Action)>,
    headers: Vec<(String, Action)>,
    form: Vec<(String, Action)>,
    fields: Vec<(FieldPath, Action)>,
    body_bytes_max: u64,
    form_fields_max: usize,
}

#[derive(Debug)]
enum Action {
    Remove,
    Replace(String),
    Regex(Pattern, Replacement),
}

/// Masked value.
enum Masked {
    Unchanged,
    Removed,
    Text(Vec<u8>),
}

impl Plugin for DataMask {
    const NAME: &'static str = "data-mask";
    const PRIORITY: i32 = 1500;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::LOG;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let fields = &mut schema["properties"];
        if let Some(size) = fields["max_body_size"].as_object_mut() {
            size.shift_remove("minimum");
            size.insert("exclusiveMinimum".into(), json!(0));
        }
        let when = |field: &str, value: &str, required: &[&str]| {
            json!({
                "if": {"properties": {field: {"const": value}}},
                "then": {"required": required},
            })
        };
        fields["request"]["items"]["allOf"] = json!([
            when("type", "body", &["body_format"]),
            when("action", "regex", &["regex", "value"]),
            when("action", "replace", &["value"]),
        ]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let mut plugin = Self {
            query: Vec::new(),
            headers: Vec::new(),
            form: Vec::new(),
            fields: Vec::new(),
            body_bytes_max: config.max_body_size,
            form_fields_max: match config.max_req_post_args {
                0 => usize::MAX,
                count => usize::try_from(count).unwrap_or(usize::MAX),
            },
        };
        for mask in config.request {
            let action = Action::compile(&mask)?;
            match (mask.part, mask.body_format) {
                (Part::Query, _) => plugin.query.push((mask.name, action)),
                (Part::Header, _) => plugin.headers.push((mask.name, action)),
                (Part::Body, Some(BodyFormat::Json)) => {
                    plugin.fields.push((FieldPath::parse(&mask.name)?, action));
                }
                (Part::Body, _) => plugin.form.push((mask.name, action)),
            }
        }
        Ok(plugin)
    }

    fn log(&self, cx: &mut LogContext<'_>) {
        self.mask_query(cx);
        self.mask_headers(cx);
        self.mask_body(cx);
    }
}

impl Action {
    fn compile(mask: &MaskConfig) -> Result<Self, ConfError> {
        let value = mask.value.clone().unwrap_or_default();
        Ok(match mask.action {
            ActionKind::Remove => Action::Remove,
            ActionKind::Replace => Action::Replace(value),
            ActionKind::Regex => {
                let regex = mask.regex.as_deref().unwrap_or_default();
                Action::Regex(
                    patterns::compile(regex, Case::Sensitive)?,
                    Replacement::parse(&value)?,
                )
            }
        })
    }

    fn apply(&self, value: &[u8]) -> Masked {
        match self {
            Action::Remove => Masked::Removed,
            Action::Replace(value) => Masked::Text(value.clone().into_bytes()),
            Action::Regex(pattern, replacement) => {
                match substitute::first(pattern, value, replacement) {
                    Ok(Some((text, _))) => Masked::Text(text),
                    Ok(None) => Masked::Unchanged,
                    // A value that could not be searched must not be shown.
                    Err(_) => Masked::Removed,
                }
            }
        }
    }
}

impl DataMask {
    fn mask_query(&self, cx: &mut LogContext<'_>) {
        let Some(query) = cx.query().filter(|_| !self.query.is_empty()) else { return };
        let Some(masked) = mask_pairs(query, &self.query, usize::MAX) else { return };
        let uri = cx.variables().variable(&Variable::RequestUri).unwrap_or_default();
        let end = uri.iter().position(|byte| *byte == b'?').unwrap_or(uri.len());
        let mut uri = uri[..end].to_vec();
        if !masked.is_empty() {
            uri.push(b'?');
            uri.extend_from_slice(&masked);
        }
        cx.mask().uri = Some(uri);
    }

    fn mask_headers(&self, cx: &mut LogContext<'_>) {
        for (name, action) in &self.headers {
            let masked = cx.masked().and_then(|masked| masked.header(name.as_bytes()));
            let value = match masked {
                Some(value) => value.map(Cow::Borrowed),
                None => cx.request().header(name.as_bytes()),
            };
            let masked = value.map(|value| action.apply(&value));
            let new = match masked {
                None | Some(Masked::Unchanged) => continue,
                Some(Masked::Removed) => None,
                Some(Masked::Text(text)) => Some(text),
            };
            cx.mask().headers.push((name.as_str().into(), new));
        }
    }

    fn mask_body(&self, cx: &mut LogContext<'_>) {
        if self.form.is_empty() && self.fields.is_empty() {
            return;
        }
        let known = cx.masked().and_then(|masked| masked.body.as_deref());
        let Some(body) = known.or_else(|| cx.request().body()).filter(|body| !body.is_empty())
        else {
            return;
        };
        let masked = match body.len() as u64 <= self.body_bytes_max {
            true => self.masked_body(body),
            false => {
                tracing::warn!("a request's body is too long to be masked and is not logged");
                Some(Vec::new())
            }
        };
        if let Some(masked) = masked {
            cx.mask().body = Some(masked);
        }
    }

    /// Returns the masked form of a body; `None` if nothing had to be masked.
    fn masked_body(&self, body: &[u8]) -> Option<Vec<u8>> {
        let form = mask_pairs(body, &self.form, self.form_fields_max);
        if self.fields.is_empty() {
            return form;
        }
        let body = form.as_deref().unwrap_or(body);
        let Ok(mut document) = serde_json::from_slice::<Value>(body) else {
            tracing::warn!("a request's body is not JSON, cannot be masked and is not logged");
            return Some(Vec::new());
        };
        let mut is_masked = false;
        for (path, action) in &self.fields {
            let Some(places) = path.places(&document) else { return Some(Vec::new()) };
            // From the end, because removed items change the positions of later ones.
            for place in places.iter().rev() {
                is_masked |= mask_field(&mut document, place, action);
            }
        }
        if is_masked { serde_json::to_vec(&document).ok() } else { form }
    }
}

/// Masks one field; returns whether it has changed.
fn mask_field(document: &mut Value, place: &[Key], action: &Action) -> bool {
    let Some((key, parents)) = place.split_last() else { return false };
    let parent = parents.iter().try_fold(document, |value, key| match key {
        Key::Name(name) => value.get_mut(name),
        Key::Item(index) => value.get_mut(index),
    });
    let Some(parent) = parent else { return false };
    let value = match key {
        Key::Name(name) => parent.get(name),
        Key::Item(index) => parent.get(index),
    };
    let masked = match (action, value) {
        (_, None) => return false,
        // Regular expressions apply to texts only.
        (Action::Regex(..), Some(Value::String(text))) => action.apply(text.as_bytes()),
        (Action::Regex(..), Some(_)) => return false,
        (_, Some(_)) => action.apply(b""),
    };
    match (masked, key, parent) {
        (Masked::Unchanged, ..) => return false,
        (Masked::Removed, Key::Name(name), Value::Object(fields)) => {
            fields.shift_remove(name);
        }
        (Masked::Removed, Key::Item(index), Value::Array(items)) => {
            items.remove(*index);
        }
        (Masked::Text(text), Key::Name(name), parent) => {
            parent[name] = String::from_utf8_lossy(&text).into();
        }
        (Masked::Text(text), Key::Item(index), parent) => {
            parent[*index] = String::from_utf8_lossy(&text).into();
        }
        _ => return false,
    }
    true
}

/// Masks the fields of a query or form; `None` if no mask applies. Only the first `count_max`
/// fields are kept.
fn mask_pairs(text: &[u8], masks: &[(String, Action)], count_max: usize) -> Option<Vec<u8>> {
    let mut is_masked = false;
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for pair in text.split(|byte| *byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|byte| *byte == b'=');
        let name = decode_argument(&pair[..at.unwrap_or(pair.len())]);
        let mut value = at.map(|at| decode_argument(&pair[at + 1..]).into_owned());
        let mut is_kept = true;
        let mut is_changed = false;
        for (_, action) in masks.iter().filter(|(other, _)| other.as_bytes() == &*name) {
            let is_flag = value.is_none() && matches!(action, Action::Regex(..));
            let masked = match is_flag {
                true => Masked::Unchanged,
                false => action.apply(value.as_deref().unwrap_or_default()),
            };
            match masked {
                Masked::Unchanged => {}
                Masked::Removed => is_kept = false,
                Masked::Text(text) => {
                    is_changed = true;
                    value = Some(text);
                }
            }
        }
        is_masked |= is_changed || !is_kept;
        if !is_kept {
            continue;
        }
        kept.push(match value.filter(|_| is_changed) {
            Some(value) => {
                let mut pair = pair[..at.unwrap_or(pair.len())].to_vec();
                pair.push(b'=');
                escape(&value, &mut pair);
                pair
            }
            None => pair.to_vec(),
        });
    }
    is_masked |= !masks.is_empty() && kept.len() > count_max;
    kept.truncate(count_max);
    is_masked.then(|| kept.join(&b'&'))
}

/// Appends a value, encoded for a query; `*` stays as it is, because masks consist of it.
fn escape(value: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte.is_ascii_alphanumeric() || b"-._~*".contains(&byte) {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests;
