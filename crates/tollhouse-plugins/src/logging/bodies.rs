//! Bodies in log entries: conditions and length limits.

use std::sync::{Arc, Mutex, PoisonError};

use serde_json::Value;
use tollhouse_model::expr::Expr;
use tollhouse_plugin::{
    Answer, BodyError, BodyFilter, ConfError, Effect, Flow, Piece, RefusalKind, RequestContext,
    ResponseContext, Step,
};

use super::BodyFields;
use crate::shared::confs::conditions;

/// Maximum length in bytes of a request body that is read for a log. A longer one is passed on
/// without being logged.
const READ_BYTES_MAX: u64 = 64 << 20;

/// Rules for the bodies of requests and answers.
#[derive(Debug)]
pub(super) struct Bodies {
    request: Option<Rule>,
    response: Option<Rule>,
}

#[derive(Debug)]
struct Rule {
    condition: Option<Expr>,
    bytes_max: usize,
}

/// Collected part of a body, shared between the body filter and the log phase.
#[derive(Debug, Clone, Default)]
pub(super) struct BodyCapture(Arc<Mutex<Vec<u8>>>);

impl BodyCapture {
    /// Calls `look` with the collected bytes.
    pub fn look<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn add(&self, piece: &[u8], bytes_max: usize) {
        let mut body = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = bytes_max - body.len();
        body.extend_from_slice(&piece[..piece.len().min(room)]);
    }
}

impl Bodies {
    pub fn compile(fields: BodyFields) -> Result<Self, ConfError> {
        let request = condition("include_req_body_expr", fields.include_req_body_expr)?;
        let response = condition("include_resp_body_expr", fields.include_resp_body_expr)?;
        let size = |bytes| usize::try_from(bytes).unwrap_or(usize::MAX);
        let request = Rule { condition: request, bytes_max: size(fields.max_req_body_bytes) };
        let response = Rule { condition: response, bytes_max: size(fields.max_resp_body_bytes) };
        Ok(Self {
            request: fields.include_req_body.then_some(request),
            response: fields.include_resp_body.then_some(response),
        })
    }

    /// Reads the request's body if it is to be logged, and passes it to `take`.
    pub fn request<'a>(
        &'a self,
        cx: &'a mut RequestContext<'_>,
        take: impl FnOnce(&mut RequestContext<'_>, Vec<u8>) + 'a,
    ) -> Step<'a> {
        let Some(rule) = &self.request else { return Step::Continue };
        if !has_body_to_read(cx) || !rule.holds(|expr| expr.matches(cx.variables())) {
            return Step::Continue;
        }
        Step::wait(async move {
            match cx.read_body(READ_BYTES_MAX).await {
                Ok(body) => {
                    let body = body[..body.len().min(rule.bytes_max)].to_vec();
                    take(cx, body);
                    Flow::Continue
                }
                Err(BodyError::TooLarge) => {
                    Answer::status(413).refused(RefusalKind::RequestInvalid).into()
                }
                Err(BodyError::Broken) => {
                    Answer::status(400).refused(RefusalKind::RequestInvalid).into()
                }
            }
        })
    }

    /// Collects the answer's body if it is to be logged.
    pub fn response(&self, cx: &mut ResponseContext<'_>) -> Option<BodyCapture> {
        let rule = self.response.as_ref()?;
        if !rule.holds(|expr| expr.matches(&cx.variables())) {
            return None;
        }
        let collected = BodyCapture::default();
        if cx.facts().has_body {
            let watch = Watch { into: collected.clone(), bytes_max: rule.bytes_max };
            cx.filter_body(Effect::Observes, Box::new(watch));
        }
        Some(collected)
    }
}

fn condition(field: &str, expr: Option<Vec<Vec<Value>>>) -> Result<Option<Expr>, ConfError> {
    let Some(expr) = expr else { return Ok(None) };
    let expr = Value::Array(expr.into_iter().map(Value::Array).collect());
    let in_field = |error| format!("failed to validate the '{field}' expression: {error}");
    conditions::parse(&expr).map(Some).map_err(|error| in_field(error).into())
}

impl Rule {
    fn holds(&self, matches: impl FnOnce(&Expr) -> bool) -> bool {
        self.condition.as_ref().is_none_or(matches)
    }
}

/// Whether the request has a body that is not too long to read.
fn has_body_to_read(cx: &RequestContext<'_>) -> bool {
    if cx.header("transfer-encoding").is_some() {
        return true;
    }
    let length = cx.header("content-length");
    let length = length.and_then(|text| std::str::from_utf8(&text).ok()?.trim().parse().ok());
    length.is_some_and(|bytes: u64| bytes > 0 && bytes <= READ_BYTES_MAX)
}

/// Filter that copies the body, up to a limit.
struct Watch {
    into: BodyCapture,
    bytes_max: usize,
}

impl BodyFilter for Watch {
    fn filter(&mut self, input: &[u8], _piece: Piece, _out: &mut Vec<u8>) {
        self.into.add(input, self.bytes_max);
    }
}
