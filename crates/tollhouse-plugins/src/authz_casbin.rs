//! Allows or refuses requests by a Casbin model and policy.
//!
//! The user is the consumer that a plugin for authentication has found, or is in a header that such
//! a plugin sets. The model sees the user, the path and the method. Decisions are made after
//! authentication.
//!
//! # Example
//! ```json
//! {
//!   "username": "X-Consumer-Username",
//!   "model": "[request_definition]\nr = sub, obj, act\n[policy_definition]\np = sub, obj, act\n[role_definition]\ng = _, _\n[policy_effect]\ne = some(where (p.eft == allow))\n[matchers]\nm = g(r.sub, p.sub) && keyMatch(r.obj, p.obj) && keyMatch(r.act, p.act)",
//!   "policy": "p, admin, *, *\np, anonymous, /, GET\ng, alice, admin"
//! }
//! ```
//!
//! # Answers
//! - 403 `Access Denied`, also when a decision would take too much work
//! - 503 when neither the conf nor the plugin's metadata has a model
//!
//! # Notes
//! A header that clients send is not authentication: anyone can send any name. With `X-Consumer-Username`
//! the user is the consumer, so put a plugin such as `key-auth` on the same route; lines that
//! clients send are ignored. For any other header, a plugin on the same route must set or remove
//! it in every request. APISIX decides before most plugins for authentication, Tollhouse after all.
//!
//! A request without the header is that of `anonymous`. Matchers may use `&&`, `||`, `!`, `==`, `!=`,
//! `in`, the functions `keyMatch`, `keyMatch2`, `keyMatch3`, `globMatch`, `regexMatch`, `ipMatch`,
//! and role definitions with or without domains; other parts of Casbin are refused. Patterns must be
//! in the policy or the matcher, and those of `globMatch` may use `*` and `?` only. A policy has at
//! most 10,000 lines. Requests are refused if user or path is longer than 8192 bytes, or if a regular
//! expression reaches its limit. Files are read when the conf is put into service.

use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tollhouse_plugin::{
    Answer, Category, ConfError, MetadataSpec, Phases, Plugin, RefusalKind, RequestContext, Scope,
    Step,
};

use crate::shared::messages::request_document::text;

use self::model::Enforcer;

mod matcher;
mod model;
mod wildcard;

/// Header that tells nodes the consumer. Lines that clients send are ignored.
const CONSUMER_HEADER: &str = "X-Consumer-Username";

/// User of requests without the header.
const ANONYMOUS: &str = "anonymous";

/// Number of values of a request: user, path, method.
const REQUEST_FIELDS: usize = 3;

/// Longest model or policy in a file, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Configuration of `authz-casbin`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Path of a file with the model.
    pub model_path: Option<String>,
    /// Path of a file with the policy.
    pub policy_path: Option<String>,
    /// Model as a text. Unset, like `model_path`: that of the plugin's metadata.
    pub model: Option<String>,
    /// Policy as a text.
    pub policy: Option<String>,
    /// Header with the user's name. With `X-Consumer-Username`, the user is the consumer that the
    /// route's authentication has found.
    pub username: Option<String>,
}

/// Plugin metadata: model and policy for all confs without their own.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Metadata {
    /// Model as a text.
    pub model: String,
    /// Policy as a text.
    pub policy: String,
}

#[derive(Debug)]
pub struct AuthzCasbin {
    /// `None` without a model, which only metadata could bring.
    enforcer: Option<Arc<Enforcer>>,
    header: String,
}

impl Plugin for AuthzCasbin {
    const NAME: &'static str = "authz-casbin";
    const PRIORITY: i32 = 2560;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        // The third alternative is for confs whose model is in the metadata.
        schema["oneOf"] = json!([
            {"required": ["model_path", "policy_path", "username"]},
            {"required": ["model", "policy", "username"]},
            {
                "required": ["username"],
                "not": {"anyOf": [
                    {"required": ["model_path", "policy_path"]},
                    {"required": ["model", "policy"]},
                ]},
            },
        ]);
    }

    fn metadata() -> Option<MetadataSpec> {
        Some(MetadataSpec::new::<Metadata>())
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        let header = config.username.clone().unwrap_or_default();
        let texts = match (config.model_path, config.policy_path, config.model, config.policy) {
            (Some(model), Some(policy), ..) => Some((read(&model)?, read(&policy)?)),
            (_, _, Some(model), Some(policy)) => Some((model, policy)),
            _ => {
                let field = |name: &str| scope.metadata_field(name)?.as_str().map(str::to_owned);
                field("model").zip(field("policy"))
            }
        };
        let Some((model, policy)) = texts else { return Ok(Self { enforcer: None, header }) };
        let enforcer = Enforcer::parse(&model, &policy)?;
        if enforcer.request_fields() != REQUEST_FIELDS {
            return Err("request_definition must have three fields: user, path and method".into());
        }
        Ok(Self { enforcer: Some(Arc::new(enforcer)), header })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let Some(enforcer) = &self.enforcer else {
            tracing::warn!("neither conf nor metadata of authz-casbin have a model");
            return Answer::status(503).refused(RefusalKind::PluginFailed).into();
        };
        let user = self.user(cx);
        // A decision that is not reached admits no request.
        let is_allowed =
            enforcer.allows(&[&user, &text(cx.path()), &text(cx.method())]).unwrap_or(false);
        if is_allowed {
            return Step::Continue;
        }
        Answer::message(403, "Access Denied").refused(RefusalKind::DeniedByRule).into()
    }
}

impl AuthzCasbin {
    fn user(&self, cx: &RequestContext<'_>) -> String {
        if self.header.eq_ignore_ascii_case(CONSUMER_HEADER) {
            let consumer = cx.consumer().map(|consumer| consumer.username.to_string());
            return consumer.unwrap_or_else(|| ANONYMOUS.to_owned());
        }
        let value = cx.header(&self.header);
        value.map_or_else(|| ANONYMOUS.to_owned(), |value| text(&value).into_owned())
    }
}

/// Reads a model or policy. The text of the error has nothing of the file.
fn read(path: &str) -> Result<String, ConfError> {
    let failed = |reason: String| ConfError::from(format!("failed to read {path:?}: {reason}"));
    let file = Path::new(path);
    let length = std::fs::metadata(file).map_err(|error| failed(error.to_string()))?.len();
    if length > FILE_BYTES_MAX {
        return Err(failed(format!("longer than {FILE_BYTES_MAX} bytes")));
    }
    std::fs::read_to_string(file).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests;
