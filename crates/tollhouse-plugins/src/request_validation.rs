//! Admits requests whose headers and body satisfy a JSON Schema.
//!
//! # Example
//! ```json
//! {
//!   "body_schema": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
//!   "rejected_code": 422
//! }
//! ```
//!
//! # Answers
//! - `rejected_code` (400 by default) with `rejected_msg`, or else with the reason
//!
//! # Notes
//! A body is parsed as a form if its content type says so, and as JSON otherwise. A request with
//! two content types is refused. The body is read whole, up to `max_req_body_size` bytes; an empty
//! one is refused. The node gets the validated JSON: without white space, with each member of an
//! object once, and with the schema's defaults filled in. Forms are passed on unchanged. Header
//! names match in any case. A header that is sent several times is a list.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::json::{Document, Malformed, write_compact};
use tollhouse_model::schema::{Schema, Subject, Violation};
use tollhouse_model::variable::decode_argument;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Phases, Plugin, RefusalKind, RequestContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;

/// Content type of HTML forms.
const FORM: &[u8] = b"application/x-www-form-urlencoded";

/// Largest number of form fields, because each becomes a value in memory.
const FIELDS_MAX: usize = 100_000;

/// Configuration of `request-validation`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// JSON Schema for the headers, as an object of their values.
    pub header_schema: Option<Map<String, Value>>,
    /// JSON Schema for the body.
    pub body_schema: Option<Map<String, Value>>,
    /// Status of a refusal; 400 by default.
    #[serde(default = "default_status")]
    #[schemars(range(min = 200, max = 599))]
    pub rejected_code: u16,
    /// Body of a refusal. Unset: the reason.
    #[schemars(length(min = 1, max = 256))]
    pub rejected_msg: Option<String>,
    /// Longest body, in bytes; 64 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

defaults! {
    default_status: u16 = 400;
    /// Maximum body length in bytes: 64 MiB, the default of comparable gateways.
    default_body_bytes_max: u64 = 67_108_864;
}

#[derive(Debug)]
pub struct RequestValidation {
    headers: Option<HeaderRules>,
    body: Option<Arc<Schema>>,
    status: u16,
    message: Option<String>,
    body_bytes_max: u64,
}

#[derive(Debug)]
struct HeaderRules {
    schema: Schema,
    /// Names in the schema that are not written in `lower-case`.
    names: Vec<String>,
}

impl Plugin for RequestValidation {
    const NAME: &'static str = "request-validation";
    const PRIORITY: i32 = 2800;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        for field in ["header_schema", "body_schema"] {
            let description = schema["properties"][field]["description"].take();
            schema["properties"][field] = json!({ "description": description, "type": "object" });
        }
        schema["anyOf"] =
            json!([{ "required": ["header_schema"] }, { "required": ["body_schema"] }]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let compile = |field, document: Map<String, Value>| {
            Schema::compile_for(&Value::Object(document), Subject::Traffic)
                .map_err(|error| ConfError::from(error).at(field))
        };
        let headers = config.header_schema.map(|document| {
            let names = foreign_names(&document);
            compile("header_schema", document).map(|schema| HeaderRules { schema, names })
        });
        // If both schemas are invalid, the body's is reported, as in APISIX.
        let body = config.body_schema.map(|document| compile("body_schema", document));
        let body = body.transpose()?;
        Ok(Self {
            headers: headers.transpose()?,
            body: body.map(Arc::new),
            status: config.rejected_code,
            message: config.rejected_msg,
            body_bytes_max: config.max_req_body_size,
        })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        if let Some(rules) = &self.headers
            && let Err(problem) = rules.check(cx)
        {
            return self.refusal(Some(problem)).into();
        }
        match &self.body {
            None => Step::Continue,
            Some(schema) => Step::wait(async move {
                match self.check_body(schema, cx).await {
                    Ok(()) => Flow::Continue,
                    Err(problem) => self.refusal(problem).into(),
                }
            }),
        }
    }
}

impl RequestValidation {
    /// Validates the body, and rewrites it if it is JSON. The error is the reason, or `None` if the
    /// body is missing or unreadable.
    async fn check_body(
        &self,
        schema: &Arc<Schema>,
        cx: &mut RequestContext<'_>,
    ) -> Result<(), Option<Violation>> {
        let types = cx.headers_named("Content-Type");
        if types.len() > 1 {
            return Err(Some(Violation::new("more than one Content-Type")));
        }
        let is_form = types.first().is_some_and(|value| is_form(value));
        if cx.read_body(self.body_bytes_max).await.map_err(|_| None)?.is_empty() {
            return Err(None);
        }
        let schema = Arc::clone(schema);
        let examiner = move |body: &[u8]| {
            if is_form {
                check_form(&schema, body).map(|()| None)
            } else {
                check_json(&schema, body)
            }
        };
        let checked = cx.examine_body(examiner).await.map_err(|_| None)?;
        if let Some(anew) = checked.map_err(Some)? {
            cx.edits().body = Some(anew);
        }
        Ok(())
    }

    fn refusal<'a>(&'a self, problem: Option<Violation>) -> Answer<'a> {
        let answer = match (&self.message, problem) {
            (Some(message), _) => Answer::text(self.status, message.as_bytes()),
            (None, Some(problem)) => Answer::text(self.status, String::from(problem).into_bytes()),
            (None, None) => Answer::status(self.status),
        };
        answer.refused(RefusalKind::RequestInvalid)
    }
}

fn check_form(schema: &Schema, body: &[u8]) -> Result<(), Violation> {
    if memchr::memchr_iter(b'&', body).count() >= FIELDS_MAX {
        return Err(Violation::new(format!("more than {FIELDS_MAX} fields")));
    }
    schema.validate_and_fill(&mut form(body))
}

/// Validates JSON in place. Returns its new form if that differs from the input.
fn check_json(schema: &Schema, body: &[u8]) -> Result<Option<Vec<u8>>, Violation> {
    let document = Document::parse(body).map_err(|fault| undecodable(body, fault))?;
    let additions = schema.validate_text(&document)?;
    Ok(write_compact(&document, &additions))
}

impl HeaderRules {
    fn check(&self, cx: &RequestContext<'_>) -> Result<(), Violation> {
        let mut headers = Map::new();
        cx.each_header(&mut |name, value| {
            let name = String::from_utf8_lossy(name).to_ascii_lowercase();
            add(&mut headers, name, text(value));
        });
        for name in &self.names {
            let value = headers.get(&normal(name)).cloned();
            headers.extend(value.map(|value| (name.clone(), value)));
        }
        self.schema.validate_and_fill(&mut Value::Object(headers))
    }
}

/// Returns the header names in a schema that are not in the normal form.
fn foreign_names(schema: &Map<String, Value>) -> Vec<String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let properties = properties.into_iter().flat_map(Map::keys).cloned();
    let required = schema.get("required").and_then(Value::as_array);
    let required = required.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    let mut names: Vec<String> = properties.chain(required).collect();
    names.retain(|name| *name != normal(name));
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the normal form of a header's name: lower case with hyphens.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace('_', "-")
}

/// Adds a value to a map; a second value of a name makes a list.
fn add(map: &mut Map<String, Value>, name: String, value: Value) {
    match map.get_mut(&name) {
        None => {
            map.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = json!([first.take(), value]),
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::String(String::from_utf8_lossy(bytes).into_owned())
}

fn is_form(content_type: &[u8]) -> bool {
    let name = content_type.split(|&byte| byte == b';').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(FORM)
}

/// Parses the fields of a form; a field without `=` is `true`.
fn form(body: &[u8]) -> Value {
    let mut fields = Map::new();
    for pair in body.split(|&byte| byte == b'&').filter(|pair| !pair.is_empty()) {
        let at = pair.iter().position(|&byte| byte == b'=');
        let name = &pair[..at.unwrap_or(pair.len())];
        if name.is_empty() {
            continue;
        }
        let name = String::from_utf8_lossy(&decode_argument(name)).into_owned();
        let value = at.map_or(Value::Bool(true), |at| text(&decode_argument(&pair[at + 1..])));
        add(&mut fields, name, value);
    }
    Value::Object(fields)
}

/// Describes invalid JSON in the words of APISIX, which clients may compare.
pub(crate) fn undecodable(body: &[u8], fault: Malformed) -> Violation {
    let (found, at) =
        if fault.at >= body.len() { ("T_END", body.len()) } else { ("invalid token", fault.at) };
    Violation::new(format!("Expected value but found {found} at character {}", at + 1))
}

#[cfg(test)]
mod tests;
