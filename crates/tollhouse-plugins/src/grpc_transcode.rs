//! Lets clients of plain HTTP call a method of a gRPC service: arguments or JSON go in, JSON comes out.
//!
//! The upstream's `scheme` is `grpc` or `grpcs`. The service is described by a `protos` object: the text
//! of a `.proto` file, or a descriptor set in base64, which is what definitions with imports of their own
//! need (`protoc --include_imports --descriptor_set_out`).
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
//! - 503 where the definition has no such service or method
//! - 400 for fields that do not fit the message
//! - 413 for a body of more than 4 MiB
//! - 504 when `deadline` is over
//! - for a call that fails, by its `grpc-status`: 499 (1), 500 (2, 13, 15), 400 (3, 9, 11), 504 (4),
//!   404 (5), 409 (6, 10), 403 (7), 429 (8), 501 (12), 503 (14), 401 (16), 599 (any other)
//!
//! # Notes
//! The fields come of the body where `POST`, `PUT` or `PATCH` bring `application/json`, of the form where
//! `POST` brings anything else, and of the query in all other cases, where dots lead into messages
//! (`?user.name=a`). Names that the message does not have are passed over. Bytes are base64. Messages
//! that JSON could write in another way, such as timestamps, are objects with their fields.
//!
//! A method that streams its answers gives `application/x-ndjson`: a line each, as they come, and where
//! the call fails in the middle, `{"error": {"code": …, "message": …}}` as the last one. A failure that
//! the node tells behind a message or an open head comes so too, since the status has been sent by then;
//! servers tell most failures in the head. A method that streams requests takes a list of them.
//!
//! Where there is no `protos` object of that id, requests pass as they are, as in APISIX; `tollhouse
//! check` warns of it. No compressed answers are asked for. `max_resp_body_size` bounds each message.
//! Hooks are functions of Lua: `enable_hooks` has no effect.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_model::json::{Document, Malformed, Piece};
use tollhouse_model::{Id, Problems};
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Answer, BodyError, Category, ConfError, Effect, Flow, Phases, Plugin, RequestContext,
    ResponseContext, Scope, Step,
};
use tollhouse_stdx::MemoryBudget;
use tollhouse_transcode::{
    Defaults, Definition, EncodeError, EnumForm, Int64Form, JsonForm, Method, document_of_arguments,
    encode_message,
};

use self::answer::{ErrorBody, Transcoding};
use crate::shared::confs::defaults::defaults;
use crate::shared::grpc::outcome::{Outcome, http_status};
use crate::shared::grpc::{self, frames};
use crate::shared::messages::answer_body;

mod answer;

/// Longest body of a request: the longest message that servers of gRPC take unless told otherwise.
const REQUEST_BYTES_MAX: u64 = 4 << 20;

/// Longest time that `grpc-timeout` can say in milliseconds: its number has eight digits.
const TIMEOUT_MS_MAX: u64 = 99_999_999;

/// What a route says.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// The `protos` object that defines the service.
    pub proto_id: Value,
    /// The service, with its package.
    pub service: String,
    /// The method.
    pub method: String,
    /// Milliseconds that a call may take; 0 for as long as it likes.
    #[serde(default)]
    pub deadline: f64,
    /// How answers are written: `int64_as_number`, `int64_as_string` or `int64_as_hexstring`,
    /// `enum_as_name` or `enum_as_value`, `auto_default_values`, `no_default_values`,
    /// `use_default_values` or `use_default_metatable`.
    #[serde(default = "default_options")]
    #[schemars(length(min = 1))]
    pub pb_option: Vec<PbOption>,
    /// Whether a call that fails is answered with its status in the body.
    #[serde(default)]
    pub show_status_in_body: bool,
    /// The message, with its package, that the details of a status are.
    pub status_detail_type: Option<String>,
    /// Bytes that a message of an answer may have, at most.
    #[serde(default = "default_answer_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_resp_body_size: u64,
}

/// How answers are written.
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
    /// The default of other gateways of this kind: 64 MiB.
    default_answer_bytes_max: u64 = 67_108_864;
}

/// The plugin.
#[derive(Debug)]
pub struct GrpcTranscode {
    /// What the method is called; the answer where there is none.
    name: String,
    /// `None` where there is no such definition.
    terms: Option<Arc<Terms>>,
    deadline: Option<Deadline>,
}

/// How calls are made and answers written.
#[derive(Debug)]
struct Terms {
    definition: Arc<Definition>,
    /// `None` where the definition has no such method.
    method: Option<Method>,
    form: JsonForm,
    shows_status: bool,
    detail_type: Option<String>,
    message_bytes_max: u64,
    memory: Arc<MemoryBudget>,
}

/// How long a call may take.
#[derive(Debug)]
struct Deadline {
    time: Duration,
    /// `grpc-timeout`.
    field: String,
}

/// Left by a request that has become a call.
struct Called;

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
            .ok_or_else(|| ConfError::in_field("proto_id", "it is no id"))?;
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
            return Answer::error_msg(503, &message).into();
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
        let is_call = cx.recall::<Called>().is_some() && cx.source() == Source::Upstream;
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
    /// Makes the request a call.
    fn call(&self, method: &Method, message: Vec<u8>, cx: &mut RequestContext<'_>) {
        let edits = cx.edits();
        edits.method = Some("POST");
        edits.set_upstream_uri(method.path.as_bytes());
        edits.body = Some(message);
        edits.headers.set("Content-Type", grpc::CONTENT_TYPE);
        // What of the request described its own body, and what would ask for another form of the answer.
        for name in ["Content-Encoding", "grpc-encoding", "grpc-accept-encoding", "grpc-timeout"] {
            edits.headers.remove(name);
        }
        if let Some(deadline) = &self.deadline {
            edits.headers.set("grpc-timeout", deadline.field.as_bytes());
            edits.time_max = Some(deadline.time);
        }
        cx.remember(Called);
    }
}

impl Deadline {
    /// Of milliseconds; `None` for 0 and less.
    fn from_milliseconds(milliseconds: f64) -> Option<Self> {
        // Saturates, and a part of a millisecond is one.
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
    // A later one replaces an earlier one that it contradicts.
    for option in options {
        match option {
            PbOption::Int64AsNumber => form.int64 = Int64Form::Number,
            PbOption::Int64AsString => form.int64 = Int64Form::Text,
            PbOption::Int64AsHexstring => form.int64 = Int64Form::Hexadecimal,
            PbOption::EnumAsName => form.enums = EnumForm::Name,
            PbOption::EnumAsValue => form.enums = EnumForm::Number,
            PbOption::AutoDefaultValues => form.defaults = Defaults::Auto,
            PbOption::UseDefaultValues => form.defaults = Defaults::All,
            // Lua's metatables are not seen by what writes JSON.
            PbOption::NoDefaultValues | PbOption::UseDefaultMetatable => {
                form.defaults = Defaults::Nothing;
            }
            PbOption::EnableHooks | PbOption::DisableHooks => {}
        }
    }
    form
}

/// Where the fields of a request are.
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

/// The message that a body says, in its frame.
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
                // None at all says as much as an empty object.
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
            Err(Answer::error_msg(413, &message))
        }
        Err(BodyError::Broken) => Err(Answer::status(400)),
    }
}

/// Why a body is no message of a method.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    /// It is no JSON, from this byte on.
    #[error("the body is no JSON: it is wrong at byte {0}")]
    NotJson(usize),
    /// It says what the message cannot hold.
    #[error(transparent)]
    Message(#[from] EncodeError),
}

/// What a JSON text says, as one frame; as one each where a method takes any number and the text is a
/// list.
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
}

#[cfg(test)]
mod tests;
