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
//! JSONPaths without filters. Forms are bodies with the content type
//! `application/x-www-form-urlencoded`. A body that cannot be masked is not logged at all: it is not
//! of a stated format, repeats the name of a JSON field, has more than 100,000 values, or is longer
//! than `max_body_size`. Neither is a body above 32 KiB if a plugin has replaced it or answered the
//! request. Traces record what the client sent.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::expr::pattern::{Case, Pattern};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::{
    Category, ConfError, Flow, LogContext, Phases, Plugin, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::confs::patterns;
use crate::shared::confs::substitute::{self, Replacement};

use self::body::BodyMasks;
use self::path::FieldPath;

mod body;
mod pairs;
mod path;

/// Bodies of at most this many bytes are masked on the core when the exchange has ended; longer ones
/// on another thread before that.
const INLINE_BYTES_MAX: usize = 32 << 10;

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
    /// `None` without masks of bodies.
    body: Option<Arc<BodyMasks>>,
}

/// Masked form of a long body, in the form of [`BodyMasks::apply`].
#[derive(Default)]
struct LongBody(Option<Vec<u8>>);

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
    /// The value could not be searched, and must not be shown.
    Unknown,
}

impl Plugin for DataMask {
    const NAME: &'static str = "data-mask";
    const PRIORITY: i32 = 1500;
    const CATEGORY: Category = Category::Observability;
    const PHASES: Phases = Phases::BEFORE_PROXY.union(Phases::LOG);
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
        let (mut query, mut headers) = (Vec::new(), Vec::new());
        let mut body = BodyMasks {
            form: Vec::new(),
            fields: Vec::new(),
            bytes_max: usize::try_from(config.max_body_size).unwrap_or(usize::MAX),
            form_fields_max: match config.max_req_post_args {
                0 => usize::MAX,
                count => usize::try_from(count).unwrap_or(usize::MAX),
            },
        };
        for mask in config.request {
            let action = Action::compile(&mask)?;
            match (mask.part, mask.body_format) {
                (Part::Query, _) => query.push((mask.name, action)),
                (Part::Header, _) => headers.push((mask.name, action)),
                (Part::Body, Some(BodyFormat::Json)) => {
                    body.fields.push((FieldPath::parse(&mask.name)?, action));
                }
                (Part::Body, _) => body.form.push((mask.name, action)),
            }
        }
        let has_masks = !body.form.is_empty() || !body.fields.is_empty();
        Ok(Self { query, headers, body: has_masks.then(|| Arc::new(body)) })
    }

    fn phases(&self) -> Phases {
        if self.body.is_some() { Self::PHASES } else { Phases::LOG }
    }

    /// Masks a long body, because the log phase cannot wait for another thread. Loggers have read
    /// it by now.
    fn before_proxy<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(masks) = &self.body else { return Step::Continue };
        let length = cx.exchange().body().map_or(0, <[u8]>::len);
        let is_examined = (INLINE_BYTES_MAX + 1..=masks.bytes_max).contains(&length);
        if !is_examined || cx.exchange().edits().body.is_some() {
            return Step::Continue;
        }
        let masks = Arc::clone(masks);
        let kind = cx.exchange().client_header(b"content-type").unwrap_or_default().to_vec();
        Step::wait(async move {
            if let Ok(masked) = cx.examine_body(move |body| masks.apply(body, &kind)).await {
                cx.remember(LongBody(masked));
            }
            Flow::Continue
        })
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
                    Err(_) => Masked::Unknown,
                }
            }
        }
    }
}

impl DataMask {
    fn mask_query(&self, cx: &mut LogContext<'_>) {
        if self.query.is_empty() {
            return;
        }
        let masked = |uri: &[u8]| {
            let at = uri.iter().position(|byte| *byte == b'?')?;
            let query = pairs::mask(&uri[at + 1..], &self.query, usize::MAX);
            let query = query.unwrap_or(Some(Vec::new()))?;
            Some(if query.is_empty() { uri[..at].into() } else { [&uri[..=at], &query].concat() })
        };
        let edited = cx.request().edits().upstream_uri().map(<[u8]>::to_vec);
        if let Some(uri) = edited.and_then(|uri| masked(&uri)) {
            cx.mask().upstream_uri = Some(uri);
        }
        // A query that an earlier plugin has masked is masked further.
        let uri = cx.variables().variable(&Variable::RequestUri).unwrap_or_default();
        if let Some(uri) = masked(&uri) {
            cx.mask().uri = Some(uri);
        }
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
                Some(Masked::Removed | Masked::Unknown) => None,
                Some(Masked::Text(text)) => Some(text),
            };
            cx.mask().headers.push((name.as_str().into(), new));
        }
    }

    fn mask_body(&self, cx: &mut LogContext<'_>) {
        let Some(masks) = &self.body else { return };
        let long = cx.recall::<LongBody>().map(std::mem::take);
        let request = cx.request();
        let known = cx.masked().and_then(|masked| masked.body.as_deref());
        let Some(body) = known.or_else(|| request.body()).filter(|body| !body.is_empty()) else {
            return;
        };
        let masked = match long {
            _ if body.len() <= INLINE_BYTES_MAX => {
                let kind = request.client_header(b"content-type").unwrap_or_default();
                masks.apply(body, kind)
            }
            Some(LongBody(masked)) if known.is_none() => masked,
            _ => Some(Vec::new()),
        };
        // A logger may have seen the body of another plugin, which is not the one that was examined.
        let is_replaced = request.edits().body.is_some();
        let shown = masked.or_else(|| is_replaced.then(|| body.to_vec()));
        if let Some(shown) = shown {
            if shown.is_empty() {
                tracing::debug!("a request's body cannot be masked and is not logged");
            }
            cx.mask().body = Some(shown);
        }
    }
}

#[cfg(test)]
mod tests;
