//! Lets browsers call gRPC services over grpc-web, in its binary and its text form.
//!
//! The upstream's `scheme` must be `grpc` or `grpcs`. The part of the path that the `*` at the end of
//! the route's `uri` matches is the path of the call; without it, the whole path.
//!
//! # Example
//! ```json
//! {
//!   "cors_allow_headers": "content-type,x-grpc-web,x-user-agent,grpc-timeout"
//! }
//! ```
//!
//! # Answers
//! - 204 to `OPTIONS`, with the methods and headers allowed for pages of other origins
//! - 405 to any method but `POST`
//! - 400 for a `Content-Type` other than `application/grpc-web`, `application/grpc-web+proto`,
//!   `application/grpc-web-text` and `application/grpc-web-text+proto`
//! - 400 when a body in text form is not base64
//! - 413 when the body exceeds `max_req_body_size` bytes
//!
//! # Notes
//! Every answer carries `Access-Control-Allow-Origin: *`, unless the `cors` plugin has set another
//! value, and exposes `grpc-message` and `grpc-status`. The node's trailers become the last frame
//! of the body, with the flag 0x80. A failed call without a message has its status in the head
//! alone. In text form, each piece of the answer is separate base64, as clients expect. The
//! client's `grpc-timeout` applies. If the gateway answers itself, because a node is silent or
//! another plugin refuses the request, the client gets `grpc-status` and `grpc-message` in the head
//! of a 200 without a body. With the prefix `/grpc/*`, a request to `/grpc/pkg.Service/Method`
//! calls `/pkg.Service/Method`.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::Deserialize;
use tollhouse_http::{grpc_status, grpc_timeout};
use tollhouse_model::variable::Variable;
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Answer, BodyError, BodyFilter, Category, ConfError, Effect, Flow, Phases, Piece, Plugin,
    RefusalKind, RequestContext, ResponseContext, Scope, Step,
};

use crate::shared::auth::base64::encode_base64;
use crate::shared::confs::defaults::defaults;
use crate::shared::grpc::{self, frames};
use crate::shared::messages::answer_body;

mod text;

/// Methods in the answers to CORS preflight requests.
const METHODS: &[u8] = b"POST";

/// Response headers that pages may read.
const EXPOSED: &[u8] = b"grpc-message,grpc-status";

/// gRPC status of a call that has timed out.
const DEADLINE_EXCEEDED: u8 = 4;

/// Frame flag of trailers (PROTOCOL-WEB of gRPC).
const TRAILERS: u8 = 0x80;

/// Configuration of `grpc-web`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Request headers that pages of other origins may send, separated by commas.
    #[serde(default = "default_headers")]
    pub cors_allow_headers: String,
    /// Longest request body, in bytes; 64 MiB by default.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
}

defaults! {
    default_headers: String = "content-type,x-grpc-web,x-user-agent".into();
    /// Maximum body length in bytes: 64 MiB, the default of comparable gateways.
    default_body_bytes_max: u64 = 67_108_864;
}

#[derive(Debug)]
pub struct GrpcWeb {
    allowed_headers: String,
    body_bytes_max: u64,
}

/// Marks a request that reached this plugin. Unless [`TranslatedCall`] follows, the plugin
/// itself refused it, and the answer stays as documented above.
struct Arrival;

/// Marks a request that was turned into a call.
#[derive(Debug, Clone)]
struct TranslatedCall {
    /// `Content-Type` of the answer.
    content_type: &'static str,
    form: Form,
}

/// Encoding of gRPC-Web bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Binary,
    Text,
}

/// Accepted content types. Compared byte by byte, as APISIX does.
const CONTENT_TYPES: [(&str, Form); 4] = [
    ("application/grpc-web", Form::Binary),
    ("application/grpc-web+proto", Form::Binary),
    ("application/grpc-web-text", Form::Text),
    ("application/grpc-web-text+proto", Form::Text),
];

impl Plugin for GrpcWeb {
    const NAME: &'static str = "grpc-web";
    const PRIORITY: i32 = 505;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::ACCESS.union(Phases::RESPONSE);
    type Config = Config;

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        Ok(Self {
            allowed_headers: config.cors_allow_headers,
            body_bytes_max: config.max_req_body_size,
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        cx.remember(Arrival);
        match cx.method() {
            b"OPTIONS" => {
                let preflight = Answer::status(204)
                    .with_header("Access-Control-Allow-Methods", METHODS)
                    .with_header("Access-Control-Allow-Headers", self.allowed_headers.as_bytes());
                return preflight.into();
            }
            b"POST" => {}
            _ => {
                let message = "grpc-web takes POST and OPTIONS only";
                return Answer::error_msg(405, message)
                    .refused(RefusalKind::RequestInvalid)
                    .with_header("Allow", METHODS)
                    .into();
            }
        }
        let sent = cx.header("Content-Type").unwrap_or_default();
        let known = CONTENT_TYPES.iter().find(|(name, _)| name.as_bytes() == &*sent);
        let Some(&(content_type, form)) = known else {
            return Answer::error_msg(400, "the Content-Type is not one of grpc-web")
                .refused(RefusalKind::RequestInvalid)
                .into();
        };
        // As in APISIX, the part that the route's `*` matches is the method of the call; the prefix
        // belongs to the route. Without such a part the path stays.
        let rest = cx.variables().variable(&Variable::UriParam(":ext".into()));
        if let Some(rest) = rest.filter(|rest| !rest.is_empty()).map(Cow::into_owned) {
            let slash: &[u8] = if rest.starts_with(b"/") { b"" } else { b"/" };
            cx.edits().set_upstream_uri(&[slash, &rest].concat());
        }
        let call = TranslatedCall { content_type, form };
        match form {
            Form::Binary => {
                cx.edits().body_bytes_max = Some(self.body_bytes_max);
                enter(call, cx);
                Step::Continue
            }
            // Text form is read whole, because the decoded length is unknown beforehand and base64
            // pieces may be cut anywhere.
            Form::Text => Step::wait(async move {
                match self.read_text(cx).await {
                    Ok(body) => {
                        cx.edits().body = Some(body);
                        enter(call, cx);
                        Flow::Continue
                    }
                    Err(answer) => answer.into(),
                }
            }),
        }
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        // The `cors` plugin runs earlier and has the more specific rule.
        if cx.header("Access-Control-Allow-Origin").is_none() {
            cx.set_header("Access-Control-Allow-Origin", b"*");
        }
        if cx.header("Access-Control-Expose-Headers").is_none() {
            cx.set_header("Access-Control-Expose-Headers", EXPOSED);
        }
        if cx.source() == Source::Gateway {
            translate_refusal(cx);
            return;
        }
        let is_answer =
            cx.source() == Source::Upstream && grpc::is_answer(cx.header("Content-Type"));
        let call = cx.recall::<TranslatedCall>().filter(|_| is_answer).cloned();
        let Some(TranslatedCall { content_type, form }) = call else { return };
        cx.set_header("Content-Type", content_type.as_bytes());
        answer_body::forget_old_body(cx);
        let has_status = cx.header("grpc-status").is_some();
        cx.filter_body(Effect::Rewrites, Box::new(WebBody { form, has_status, trailers: None }));
    }
}

impl GrpcWeb {
    /// Reads a body in text form and decodes it.
    async fn read_text<'a>(&self, cx: &mut RequestContext<'_>) -> Result<Vec<u8>, Answer<'a>> {
        let decoded = match cx.read_body(self.body_bytes_max).await.map(drop) {
            Ok(()) => cx.examine_body(text::decode).await,
            Err(error) => Err(error),
        };
        match decoded {
            Ok(Some(body)) => Ok(body),
            Ok(None) => Err(Answer::error_msg(400, "the body is not base64")
                .refused(RefusalKind::RequestInvalid)),
            Err(BodyError::TooLarge) => {
                let message = format!("the body is longer than {} bytes", self.body_bytes_max);
                Err(Answer::error_msg(413, &message).refused(RefusalKind::RequestInvalid))
            }
            Err(BodyError::Broken) => Err(Answer::status(400).refused(RefusalKind::RequestInvalid)),
        }
    }
}

/// Turns the request into a gRPC call.
fn enter(call: TranslatedCall, cx: &mut RequestContext<'_>) {
    let time = cx.header("grpc-timeout").and_then(|field| grpc_timeout::parse(&field));
    let edits = cx.edits();
    edits.headers.set("Content-Type", grpc::CONTENT_TYPE);
    edits.time_max = time;
    cx.remember(call);
}

/// Turns the gateway's own answer (a plugin's refusal, an error page) into a failed call with its
/// status in the head alone, because grpc-web clients cannot read pages.
fn translate_refusal(cx: &mut ResponseContext<'_>) {
    let status = cx.status();
    // A call's `Content-Type` is `application/grpc` by now. Another plugin may also have answered
    // before this one ran.
    let called = cx.recall::<TranslatedCall>().map(|call| call.content_type);
    let content_type = match (called, cx.recall::<Arrival>()) {
        (Some(content_type), _) => Some(content_type),
        (None, Some(_)) => None,
        (None, None) => asked_content_type(cx),
    };
    let Some(content_type) = content_type.filter(|_| status >= 300) else { return };
    let has_deadline = cx.request_header("grpc-timeout").is_some();
    let code = match status {
        504 if has_deadline => DEADLINE_EXCEEDED,
        _ => grpc_status::from_http(status),
    };
    let message = grpc_status::encode_message(&format!("the gateway answers with HTTP {status}"));
    cx.set_status(200);
    cx.set_header("Content-Type", content_type.as_bytes());
    cx.set_header("grpc-status", code.to_string().as_bytes());
    cx.set_header("grpc-message", message.as_bytes());
    answer_body::forget_old_body(cx);
    cx.filter_body(Effect::Rewrites, Box::new(NoBody));
}

/// Returns the content type of a call that another plugin answered before this one ran.
fn asked_content_type(cx: &ResponseContext<'_>) -> Option<&'static str> {
    let sent = cx.request_header("Content-Type").filter(|_| cx.request().method() == b"POST")?;
    CONTENT_TYPES.iter().find(|(name, _)| name.as_bytes() == &*sent).map(|(name, _)| *name)
}

/// Body filter that drops all bytes.
struct NoBody;

impl BodyFilter for NoBody {
    fn filter(&mut self, _input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {}
}

/// Filter that moves trailers into the body, because browsers cannot read them.
struct WebBody {
    form: Form,
    /// Whether the head contains the status of the call.
    has_status: bool,
    /// Frame with the trailers, which ends the body.
    trailers: Option<Vec<u8>>,
}

impl BodyFilter for WebBody {
    fn filter(&mut self, input: &[u8], piece: Piece, out: &mut Vec<u8>) {
        let frame = self.trailers.take().filter(|_| piece.is_last()).unwrap_or_default();
        for part in [input, &frame].into_iter().filter(|part| !part.is_empty()) {
            match self.form {
                Form::Binary => out.extend_from_slice(part),
                Form::Text => out.extend_from_slice(encode_base64(part).as_bytes()),
            }
        }
    }

    fn trailers(&mut self, section: &mut Vec<u8>) {
        let lines = text::trailer_lines(section);
        // Cleared, so that HTTP/2 clients do not get the trailers twice.
        section.clear();
        if !lines.is_empty() || !self.has_status {
            let mut frame = Vec::new();
            frames::append_frame(TRAILERS, &lines, &mut frame);
            self.trailers = Some(frame);
        }
    }
}

#[cfg(test)]
mod tests;
