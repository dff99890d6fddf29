//! Lets plain HTTP clients call a method of a gRPC service: they send arguments or JSON and receive
//! JSON.
//!
//! The upstream's `scheme` must be `grpc` or `grpcs`. A `protos` object describes the service,
//! either as the text of a `.proto` file or as a base64 descriptor set. Definitions with their own
//! imports need the latter (`protoc --include_imports --descriptor_set_out`).
//!
//! # Example
//! ```json
//! {
//!   "proto_id": "1",
//!   "service": "helloworld.Greeter",
//!   "method": "SayHello"
//! }
//! ```
//!
//! # Answers
//! - 503 when the definition does not contain the service or method
//! - 400 when fields do not fit the message
//! - 413 when the body exceeds 4 MiB
//! - 504 when `deadline` has passed
//! - for a failed call, depending on its `grpc-status`: 499 (1), 500 (2, 13, 15), 400 (3, 9, 11),
//!   504 (4), 404 (5), 409 (6, 10), 403 (7), 429 (8), 501 (12), 503 (14), 401 (16), 599 (any other)
//!
//! # Notes
//! The fields of the message come from the JSON body of `POST`, `PUT` and `PATCH` with
//! `application/json`, from the form of any other `POST`, and otherwise from the query. In a form
//! or query, dots lead into nested messages (`?user.name=a`). Unknown names are ignored. Bytes are
//! base64. Messages with a special JSON form, such as timestamps, are read and written as objects
//! with their fields.
//!
//! A method that streams its answers returns `application/x-ndjson`, one line per message as they
//! arrive. If the call fails in the middle, the last line is `{"error": {"code": …, "message":
//! …}}`, because the status has already been sent by then. Most servers report failures in the head
//! instead. A method that streams requests takes a JSON list of them.
//!
//! If the `protos` object does not exist, requests pass unchanged, as in APISIX, and `tollhouse
//! check` warns. Compressed answers are not requested. `max_resp_body_size` bounds each message.
//! Hooks are Lua functions, so `enable_hooks` has no effect.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::json::{Document, Malformed, Piece};
use tollhouse_model::{Id, Problems};
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Answer, BodyError, Category, ConfError, Effect, Flow, Phases, Plugin, RefusalKind,
    RequestContext, ResponseContext, Scope, Step,
};
use tollhouse_stdx::MemoryBudget;
use tollhouse_transcode::{
    Defaults, Definition, EncodeError, EnumForm, Int64Form, JsonForm, Method,
    document_of_arguments, encode_message,
};

use self::answer::{ErrorBody, Transcoding};
use crate::shared::confs::defaults::defaults;
use crate::shared::grpc::outcome::{Outcome, http_status};
use crate::shared::grpc::{self, frames};
use crate::shared::messages::answer_body;

mod answer;

/// Maximum length of a request body in bytes; by default gRPC servers accept no longer message.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Maximum `grpc-timeout` in milliseconds: its number has at most eight digits.
const TIMEOUT_MS_MAX: u64 = 99_999_999;

/// Configuration of `grpc-transcode`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Id of the `protos` object that defines the service.
    pub proto_id: Value,
    /// Name of the service, including its package.
    pub service: String,
    /// Name of the method.
    pub method: String,
    /// Timeout of a call in milliseconds. 0, the default, disables it.
    #[serde(default)]
    pub deadline: f64,
    /// Format of answers: `int64_as_number`, `int64_as_string` or `int64_as_hexstring`;
    /// `enum_as_name` or `enum_as_value`; `auto_default_values`, `no_default_values`,
    /// `use_default_values` or `use_default_metatable`. A later option overrides an earlier one of
    /// the same group.
    #[serde(default = "default_options")]
    #[schemars(length(min = 1))]
    pub pb_option: Vec<PbOption>,
    /// Whether the body of a failed call contains its gRPC status; off by default.
    #[serde(default)]
    pub show_status_in_body: bool,
    /// Message type of the status details, including its package. Without it, details cannot be
    /// decoded.
    pub status_detail_type: Option<String>,
    /// Longest message of an answer, in bytes; 64 MiB by default.
    #[serde(default = "default_answer_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_resp_body_size: u64,
}

/// Format option of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, serde::Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
pub enum PbOption {
    Int64AsNumber,
    Int64AsString,
    Int64AsHexstring,
    EnumAsName,
    EnumAsValue,
    AutoDefaultValues,
    NoDefaultValues,
    UseDefaultValues,
    UseDefaultMetatable,
    EnableHooks,
    DisableHooks,
}

defaults! {
    default_options: Vec<PbOption> = vec![
        PbOption::EnumAsName,
        PbOption::Int64AsNumber,
        PbOption::AutoDefaultValues,
        PbOption::DisableHooks,
    ];
    /// Maximum message length in bytes: 64 MiB, the default of comparable gateways.
    default_answer_bytes_max: u64 = 67_108_864;
}

#[derive(Debug)]
pub struct GrpcTranscode {
    /// `service/method`, for the answer to calls of an unknown method.
    name: String,
    /// `None` if the `protos` object does not exist.
    terms: Option<Arc<Terms>>,
    deadline: Option<Deadline>,
}

/// Method definition and format options, compiled from the conf.
#[derive(Debug)]
struct Terms {
    definition: Arc<Definition>,
    /// `None` if the definition does not contain the method.
    method: Option<Method>,
    form: JsonForm,
    shows_status: bool,
    detail_type: Option<String>,
    message_bytes_max: u64,
    memory: Arc<MemoryBudget>,
}

/// Timeout of a gRPC call, with its header field.
#[derive(Debug)]
struct Deadline {
    time: Duration,
    /// Value of the header `grpc-timeout`.
    field: String,
}

/// Marks a request that was turned into a call.
struct TranscodedCall;

impl Plugin for GrpcTranscode {
    const NAME: &'static str = "grpc-transcode";
    const PRIORITY: i32 = 506;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let description = schema["properties"]["proto_id"]["description"].take();
        schema["properties"]["proto_id"] = json!({
            "description": description,
            "anyOf": [
                {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 64,
                    "pattern": "^[a-zA-Z0-9-_.]+$",
                },
                { "type": "integer", "minimum": 1 },
            ],
        });
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let id = Id::parse(&config.proto_id, "proto_id", &mut Problems::new())
            .ok_or_else(|| ConfError::in_field("proto_id", "invalid id"))?;
        let definition = scope.protos.and_then(|protos| protos.get(&id));
        let terms = definition.map(|definition| {
            Arc::new(Terms {
                method: definition.method(&config.service, &config.method),
                definition: Arc::clone(definition),
                form: form_of(&config.pb_option),
                shows_status: config.show_status_in_body,
                detail_type: config.status_detail_type,
                message_bytes_max: config.max_resp_body_size,
                memory: Arc::clone(&scope.services.memory),
            })
        });
        let name = format!("{}/{}", config.service, config.method);
        Ok(Self { name, terms, deadline: Deadline::from_milliseconds(config.deadline) })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(terms) = &self.terms else { return Step::Continue };
        let Some(method) = &terms.method else {
            let message = format!("Undefined service method: {}", self.name);
            return Answer::error_msg(503, &message).refused(RefusalKind::PluginFailed).into();
        };
        match Fields::from_request(cx) {
            Fields::Query => {
                let arguments = document_of_arguments(cx.query().unwrap_or_default());
                match encoded(method, &arguments) {
                    Ok(message) => self.call(method, message, cx),
                    Err(problem) => return refusal(&problem.to_string()).into(),
                }
                Step::Continue
            }
            kind => Step::wait(async move {
                match read_message(kind, method, cx).await {
                    Ok(message) => {
                        self.call(method, message, cx);
                        Flow::Continue
                    }
                    Err(answer) => answer.into(),
                }
            }),
        }
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(terms) = &self.terms else { return };
        let is_call = cx.recall::<TranscodedCall>().is_some() && cx.source() == Source::Upstream;
        let Some(method) = terms.method.as_ref().filter(|_| is_call) else { return };
        let failed = Outcome::find_in(|name| cx.header(name)).filter(|outcome| !outcome.is_ok());
        if let Some(outcome) = failed {
            if cx.status() < 300 {
                cx.set_status(http_status(outcome.code));
                cx.set_header("Content-Type", b"application/json");
            }
            if terms.shows_status {
                answer_body::forget_old_body(cx);
                let body = Box::new(ErrorBody::new(terms, &outcome));
                cx.filter_body(Effect::Rewrites, body);
            }
            return;
        }
        if cx.status() >= 300 || !grpc::is_answer(cx.header("Content-Type")) {
            return;
        }
        let kind: &[u8] =
            if method.streams_out { b"application/x-ndjson" } else { b"application/json" };
        cx.set_header("Content-Type", kind);
        answer_body::forget_old_body(cx);
        cx.filter_body(Effect::Rewrites, Box::new(Transcoding::new(terms, method)));
    }
}

impl GrpcTranscode {
    /// Turns the request into a gRPC call.
    fn call(&self, method: &Method, message: Vec<u8>, cx: &mut RequestContext<'_>) {
        let edits = cx.edits();
        edits.method = Some("POST");
        edits.set_upstream_uri(method.path.as_bytes());
        edits.body = Some(message);
        edits.headers.set("Content-Type", grpc::CONTENT_TYPE);
        // Headers that describe the old body, or that would change the form of the answer.
        for name in ["Content-Encoding", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout"] {
            edits.headers.remove(name);
        }
        if let Some(deadline) = &self.deadline {
            edits.headers.set("grpc-timeout", deadline.field.as_bytes());
            edits.time_max = Some(deadline.time);
        }
        cx.remember(TranscodedCall);
    }
}

impl Deadline {
    /// Returns `None` for 0 and negative numbers.
    fn from_milliseconds(milliseconds: f64) -> Option<Self> {
        // The cast saturates; a fraction of a millisecond counts as a whole one.
        let milliseconds = milliseconds.ceil() as u64;
        let field = match milliseconds {
            0 => return None,
            1..=TIMEOUT_MS_MAX => format!("{milliseconds}m"),
            _ => format!("{}S", (milliseconds / 1000).min(TIMEOUT_MS_MAX)),
        };
        Some(Self { time: Duration::from_millis(milliseconds), field })
    }
}

fn form_of(options: &[PbOption]) -> JsonForm {
    let mut form = JsonForm::default();
    // A later option replaces an earlier one of the same group.
    for option in options {
        match option {
            PbOption::Int64AsNumber => form.int64 = Int64Form::Number,
            PbOption::Int64AsString => form.int64 = Int64Form::Text,
            PbOption::Int64AsHexstring => form.int64 = Int64Form::Hexadecimal,
            PbOption::EnumAsName => form.enums = EnumForm::Name,
            PbOption::EnumAsValue => form.enums = EnumForm::Number,
            PbOption::AutoDefaultValues => form.defaults = Defaults::Auto,
            PbOption::UseDefaultValues => form.defaults = Defaults::All,
            // Lua metatables are invisible to the JSON encoder.
            PbOption::NoDefaultValues | PbOption::UseDefaultMetatable => {
                form.defaults = Defaults::Nothing;
            }
            PbOption::EnableHooks | PbOption::DisableHooks => {}
        }
    }
    form
}

/// Part of the HTTP request from which message fields are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fields {
    Json,
    Form,
    Query,
}

impl Fields {
    fn from_request(cx: &RequestContext<'_>) -> Self {
        let content_type = cx.header("Content-Type").unwrap_or_default().to_ascii_lowercase();
        let is_json = memchr::memmem::find(&content_type, b"application/json").is_some();
        match cx.method() {
            b"POST" | b"PUT" | b"PATCH" if is_json => Self::Json,
            b"POST" => Self::Form,
            _ => Self::Query,
        }
    }
}

/// Reads the body and returns its message as a gRPC frame.
async fn read_message<'a>(
    fields: Fields,
    method: &Method,
    cx: &mut RequestContext<'_>,
) -> Result<Vec<u8>, Answer<'a>> {
    let read = cx.read_body(REQUEST_BYTES_MAX).await.map(drop);
    let examined = match read {
        Ok(()) => {
            let method = method.clone();
            cx.examine_body(move |body| match fields {
                // An empty body counts as an empty object.
                Fields::Json if body.trim_ascii().is_empty() => encoded(&method, b"{}"),
                Fields::Json => encoded(&method, body),
                Fields::Form | Fields::Query => encoded(&method, &document_of_arguments(body)),
            })
            .await
        }
        Err(error) => Err(error),
    };
    match examined {
        Ok(encoded) => encoded.map_err(|error| refusal(&error.to_string())),
        Err(BodyError::TooLarge) => {
            let message = format!("the body is longer than {REQUEST_BYTES_MAX} bytes");
            Err(Answer::error_msg(413, &message).refused(RefusalKind::RequestInvalid))
        }
        Err(BodyError::Broken) => Err(Answer::status(400).refused(RefusalKind::RequestInvalid)),
    }
}

/// Why a request body cannot be encoded as a message.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    /// Invalid JSON; the value is the offset of the first wrong byte.
    #[error("invalid JSON body at byte {0}")]
    NotJson(usize),
    /// The JSON does not fit the message.
    #[error(transparent)]
    Message(#[from] EncodeError),
}

/// Encodes a JSON text as one frame, or as one frame per item if it is a list and the method
/// streams requests.
fn encoded(method: &Method, text: &[u8]) -> Result<Vec<u8>, RequestError> {
    let document = Document::parse(text).map_err(|Malformed { at }| RequestError::NotJson(at))?;
    let mut out = Vec::new();
    let mut append = |piece: Piece<'_>| -> Result<(), RequestError> {
        let mut message = Vec::new();
        encode_message(&method.input, piece, &mut message)?;
        frames::append_frame(0, &message, &mut out);
        Ok(())
    };
    let root = document.root();
    if method.streams_in && root.kind() == tollhouse_model::json::Kind::List {
        root.items().try_for_each(append)?;
    } else {
        append(root)?;
    }
    Ok(out)
}

fn refusal<'a>(problem: &str) -> Answer<'a> {
    Answer::error_msg(400, &format!("failed to encode request data to protobuf: {problem}"))
        .refused(RefusalKind::RequestInvalid)
}

#[cfg(test)]
mod tests;
