//! Transformation of a body: the template that applies, and its work.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use tollhouse_plugin::{Answer, RefusalKind};

use super::TransformConfig;
use super::decode::InputFormat;
use super::expression::Unsupported;
use super::render::{BYTES_ON_CORE_MAX, Scene};
use super::template::Template;
use crate::shared::auth::base64::decode_base64;

/// Compiled transformation.
#[derive(Debug)]
pub(super) struct Transform {
    pub format: Option<InputFormat>,
    /// Template as it is written.
    plain: Option<Template>,
    /// Template that was in base64. It comes first, except for forms and arguments, and bodies of
    /// unknown formats.
    decoded: Option<Template>,
    is_always_decoded: bool,
    /// Names in `_ctx.var`.
    pub variables: BTreeSet<String>,
}

/// Transformation of one body.
#[derive(Debug)]
pub(super) struct Job {
    pub transform: Arc<Transform>,
    /// `None` if the body is not decoded.
    pub format: Option<InputFormat>,
    pub content_type: Vec<u8>,
    /// Query of the request.
    pub arguments: Option<Vec<u8>>,
    /// `_ctx` of the template.
    pub context: Value,
}

/// Why a body cannot be transformed.
#[derive(Debug)]
pub(super) enum TransformFailure {
    Decode(String),
    Render(String),
}

impl TransformFailure {
    /// Returns the answer to a request whose body fails.
    pub(super) fn answer(&self) -> Answer<'static> {
        match self {
            Self::Decode(reason) => {
                let text = format!("request body decode: {reason}");
                Answer::message(400, &text).refused(RefusalKind::RequestInvalid)
            }
            Self::Render(reason) => {
                let text = format!("request template rendering: {reason}");
                Answer::message(503, &text).refused(RefusalKind::PluginFailed)
            }
        }
    }
}

impl Transform {
    /// Compiles a conf.
    ///
    /// # Errors
    /// The first construct that is not supported.
    pub(super) fn compile(conf: &TransformConfig) -> Result<Self, Unsupported> {
        let is_always_decoded = conf.template_is_base64 == Some(true);
        let decoded = decode_base64(conf.template.as_bytes());
        let decoded = decoded.and_then(|text| String::from_utf8(text).ok());
        let decoded = decoded.map(|text| Template::parse(&text)).transpose()?;
        let needs_plain = !is_always_decoded || decoded.is_none();
        let plain = needs_plain.then(|| Template::parse(&conf.template)).transpose()?;
        let both = [&plain, &decoded].into_iter().flatten();
        let variables = both.flat_map(|it| it.variables.iter().cloned()).collect();
        Ok(Self { format: conf.input_format, plain, decoded, is_always_decoded, variables })
    }

    fn template(&self, format: Option<InputFormat>) -> Option<&Template> {
        let stays_plain = matches!(format, None | Some(InputFormat::Encoded | InputFormat::Args));
        match self.is_always_decoded || !stays_plain {
            true => self.decoded.as_ref().or(self.plain.as_ref()),
            false => self.plain.as_ref().or(self.decoded.as_ref()),
        }
    }
}

impl Job {
    /// Returns the new body. Long bodies need another thread; `sent_bytes` is the length by which they
    /// are long, that of the encoded body.
    pub(super) fn run(&self, body: &[u8], sent_bytes: usize) -> Result<Vec<u8>, TransformFailure> {
        let arguments = self.arguments.as_deref();
        let document = match self.format {
            Some(format) => format.decode(body, &self.content_type, arguments),
            None => Ok(json!({})),
        };
        let document = document.map_err(TransformFailure::Decode)?;
        let text = String::from_utf8_lossy(body);
        let body = Some(&*text).filter(|text| !text.is_empty());
        let scene = Scene { document: &document, body, context: &self.context };
        let Some(template) = self.transform.template(self.format) else { return Ok(Vec::new()) };
        let core_bytes = Some(sent_bytes).filter(|bytes| *bytes <= BYTES_ON_CORE_MAX);
        let made = template.render(&scene, core_bytes).map_err(TransformFailure::Render)?;
        Ok(made.into_bytes())
    }
}
