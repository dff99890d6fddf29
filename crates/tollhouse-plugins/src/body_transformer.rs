//! Writes the bodies of requests and answers anew by a template, for example JSON as XML.
//!
//! # Example
//! ```json
//! {
//!   "request": {"input_format": "json", "template": "<name>{*_escape_xml(name)*}</name>"},
//!   "response": {"input_format": "xml", "template": "{\"id\": {*_escape_json(answer.id)*}}"}
//! }
//! ```
//!
//! # Answers
//! - 400 `request body decode: …` when the body is not of its format
//! - 413 when the body exceeds `max_req_body_size` or 8 MiB
//! - 503 `request template rendering: …` when an expression has no value
//! - 502 (`answer_unreadable`) in the place of a node's answer that cannot be transformed
//!
//! # Notes
//! Templates are a subset of lua-resty-template without arbitrary Lua: `{{ e }}` writes an expression
//! with the characters of HTML escaped, `{* e *}` as it is, `{# #}` is a comment, and `{% %}` contains
//! `if … then`, `elseif … then`, `else`, `end`, `for k, v in pairs(t) do`, `for i, v in ipairs(t) do`,
//! `for i = a, b do` and `local x = e`. Expressions have literals, paths such as `a.b[1]`, operators,
//! and the functions `_escape_json`, `_escape_xml`, `tostring`, `tonumber`, `string.lower` and
//! `string.upper`. Fields of the body are names of the template; `_body` is the body as text,
//! `_ctx.var.NAME` a variable, and `_ctx.consumer.username` the consumer's name. Any other construct is
//! refused when the object is written.
//!
//! A GET has the arguments of its query. Without `input_format`, `Content-Type` decides. A document
//! has at most 100,000 values, an output at most 8 MiB, and an XML element at most 1,000 attributes. A
//! rendering has at most 500,000 steps, such as rounds of loops; that of a body of up to 32 KiB has 20,000,
//! and one more for each byte. The template is decoded if it is base64,
//! unless the format is that of forms or arguments. The gateway's own answers that cannot be
//! transformed stay as they are.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::response::Source;
use tollhouse_plugin::{
    Answer, BodyError, Category, Codings, ConfError, Effect, Flow, Phases, Plugin, RefusalKind,
    RequestContext, ResponseContext, Scope, Step,
};

use crate::shared::confs::defaults::defaults;
use crate::shared::messages::answer_body;
use crate::shared::messages::compression::Encoding;
use crate::shared::messages::request_document::text;

use self::decode::InputFormat;
use self::filter::Transformer;
use self::transform::{Job, Transform};

mod decode;
mod expression;
mod filter;
mod render;
mod template;
mod token;
mod transform;

/// Longest body that is transformed, in bytes, whatever the conf says.
const BODY_BYTES_MAX: u64 = 8 << 20;

/// Configuration of `body-transformer`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Transformation of bodies of requests.
    pub request: Option<TransformConfig>,
    /// Transformation of bodies of answers.
    pub response: Option<TransformConfig>,
    /// Longest body of a request, in bytes; 64 MiB by default. Values above 8 MiB count as 8 MiB.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
    /// Longest body of an answer, in bytes; 64 MiB by default. Values above 8 MiB count as 8 MiB.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_resp_body_size: u64,
}

defaults! {
    default_body_bytes_max: u64 = 64 << 20;
}

/// Transformation of a body.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct TransformConfig {
    /// Format of the old body. Unset: that of its `Content-Type`.
    pub input_format: Option<InputFormat>,
    /// Template of the new body.
    pub template: String,
    /// Whether the template is encoded in base64.
    pub template_is_base64: Option<bool>,
}

#[derive(Debug)]
pub struct BodyTransformer {
    request: Option<Arc<Transform>>,
    response: Option<Arc<Transform>>,
    request_bytes_max: u64,
    response_bytes_max: u64,
}

impl Plugin for BodyTransformer {
    const NAME: &'static str = "body-transformer";
    const PRIORITY: i32 = 1080;
    const CATEGORY: Category = Category::Transformation;
    const PHASES: Phases = Phases::REWRITE.union(Phases::RESPONSE);
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        schema["anyOf"] = json!([
            {"required": ["request"]},
            {"required": ["response"]},
            {"required": ["request", "response"]},
        ]);
    }

    fn compile(config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let compile = |field: &'static str, conf: Option<TransformConfig>| {
            let compiled = conf.map(|conf| Transform::compile(&conf)).transpose();
            let compiled = compiled.map_err(|construct| {
                let text = format!("unsupported construct in {field}.template: {construct}");
                ConfError::in_field(field, text)
            });
            compiled.map(|transform| transform.map(Arc::new))
        };
        Ok(Self {
            request: compile("request", config.request)?,
            response: compile("response", config.response)?,
            request_bytes_max: config.max_req_body_size.min(BODY_BYTES_MAX),
            response_bytes_max: config.max_resp_body_size.min(BODY_BYTES_MAX),
        })
    }

    fn phases(&self) -> Phases {
        match (&self.request, &self.response) {
            (None, _) => Phases::RESPONSE,
            (Some(_), None) => Phases::REWRITE,
            (Some(_), Some(_)) => Self::PHASES,
        }
    }

    fn answer_codings(&self) -> Option<Codings> {
        self.response.is_some().then_some(Encoding::READABLE)
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(transform) = &self.request else { return Step::Continue };
        Step::wait(async move {
            match self.rewrite_body(cx, transform).await {
                Ok(()) => Flow::Continue,
                Err(answer) => answer.borrowed().into(),
            }
        })
    }

    fn response(&self, cx: &mut ResponseContext<'_>) {
        let Some(transform) = &self.response else { return };
        let is_own = cx.source() == Source::Gateway;
        // A body that the gateway has made may stay as it is.
        if is_own && cx.facts().content_length.is_some_and(|it| it > self.response_bytes_max) {
            return;
        }
        if !cx.require_readable(Encoding::READABLE, self.response_bytes_max) {
            return;
        }
        let encoding = cx.header_list("Content-Encoding").filter(|_| !cx.is_encoded_last());
        let content_type = cx.header("Content-Type").unwrap_or_default().to_vec();
        let job = Job {
            format: transform.format.or_else(|| InputFormat::named(&content_type)),
            content_type,
            arguments: cx.request().query().map(<[u8]>::to_vec),
            context: context(transform, &cx.variables()),
            transform: Arc::clone(transform),
        };
        let filter = Transformer {
            job,
            encoding: encoding.and_then(|name| Encoding::named(&name)),
            body: cx.hold_body(),
            bytes_max: self.response_bytes_max,
            keeps_unreadable: is_own,
            is_unreadable: false,
        };
        answer_body::forget_old_body(cx);
        cx.filter_body(Effect::Rewrites, Box::new(filter));
    }
}

impl BodyTransformer {
    async fn rewrite_body(
        &self,
        cx: &mut RequestContext<'_>,
        transform: &Arc<Transform>,
    ) -> Result<(), Answer<'static>> {
        let has_body = match cx.read_body(self.request_bytes_max).await {
            Ok(body) => !body.is_empty(),
            Err(BodyError::TooLarge) => {
                return Err(Answer::status(413).refused(RefusalKind::RequestInvalid));
            }
            Err(BodyError::Broken) => {
                return Err(Answer::status(400).refused(RefusalKind::RequestInvalid));
            }
        };
        let is_get = cx.method() == b"GET";
        let content_type = cx.header("Content-Type").unwrap_or_default().into_owned();
        let configured = transform.format.or_else(|| InputFormat::named(&content_type));
        let job = Job {
            format: if is_get { Some(InputFormat::Args) } else { configured.filter(|_| has_body) },
            content_type,
            arguments: cx.query().map(<[u8]>::to_vec),
            context: context(transform, cx.variables()),
            transform: Arc::clone(transform),
        };
        let no_memory =
            || Answer::message(503, "out of memory").refused(RefusalKind::PluginFailed);
        let made = cx.examine_body(move |body| job.run(body, body.len())).await.map_err(|_| no_memory())?;
        let made = made.map_err(|failure| failure.answer())?;
        // The new body is held until the end of the request.
        let held = cx.exchange().memory().take(made.capacity() as u64).ok_or_else(no_memory)?;
        cx.remember(held);
        cx.edits().body = Some(made);
        Ok(())
    }
}

/// Returns `_ctx` with the variables that the template names.
fn context(transform: &Transform, variables: &dyn Lookup) -> Value {
    let value = |name: &str| {
        let value = variables.variable(&Variable::parse(name))?;
        Some(Value::from(text(&value)))
    };
    let named = transform.variables.iter();
    let named: Map<String, Value> =
        named.filter_map(|name| Some((name.clone(), value(name)?))).collect();
    let mut context = json!({"var": named});
    if let Some(consumer) = value("consumer_name").filter(|name| name != "") {
        context["consumer"] = json!({"username": consumer});
        context["consumer_name"] = consumer;
    }
    context
}

#[cfg(test)]
mod tests;
