//! Asks Keycloak whether the client's token grants the permissions of a request.
//!
//! # Example
//! ```json
//! {
//!   "token_endpoint": "https://keycloak:8443/realms/main/protocol/openid-connect/token",
//!   "client_id": "gateway",
//!   "permissions": ["course#view"]
//! }
//! ```
//!
//! # Answers
//! - 401 `Missing JWT token in request`
//! - 403 `access_denied` without permissions, unless `policy_enforcement_mode` is `PERMISSIVE`; 307 to
//!   `access_denied_redirect_uri` if that is set
//! - 307 or Keycloak's own answer when it refuses
//! - 400 `invalid method` with `http_method_as_scope` when the method contains `#` or `,`
//! - 503 when Keycloak gives no usable answer, or a path has more than 32 decisions
//! - 422 `username is missing.` or `password is missing.`, at `password_grant_token_generation_incoming_uri`
//!
//! # Notes
//! The token is that of `Authorization`, with or without `Bearer`. Only a decision with the result
//! `true` admits a request. Each scope of each resource is a decision of its own, because Keycloak grants
//! a question with several permissions if it grants one of them; a request needs all decisions, of which
//! there are at most 32. With `lazy_load_paths`, the permissions are Keycloak's resources for the
//! path; the gateway's own token for that search is renewed with its secret, not with a refresh token.
//! A POST with a form to `password_grant_token_generation_incoming_uri` gets a token for `username` and
//! `password`; such a form has at most 64 KiB.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tollhouse_model::variable::query_argument;
use tollhouse_plugin::{
    Answer, Category, ConfError, Flow, Identity, Moment, Phases, Plugin, RefusalKind, RequestContext,
    Scope, Step,
};

use crate::http_client::service::{
    default_keepalive_pool, default_keepalive_timeout, default_timeout,
};
use crate::shared::auth::grant::digest_of;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::{default_true, defaults};
use crate::shared::messages::request_document::text;

use self::server::{Failure, Keycloak};

mod server;

/// Longest form with a name and a password, in bytes.
const FORM_BYTES_MAX: u64 = 64 << 10;

/// Largest number of decisions for a request; each is a request to Keycloak.
const DECISIONS_MAX: usize = 32;

/// Configuration of `authz-keycloak`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Longest form with a password, in bytes; 64 MiB by default. Values above 64 KiB count as 64 KiB.
    #[serde(default = "default_body_bytes_max")]
    #[schemars(range(min = 1))]
    pub max_req_body_size: u64,
    /// Address of the discovery document, from which the endpoints are taken.
    #[schemars(length(min = 1, max = 4096))]
    pub discovery: Option<String>,
    /// Address of the token endpoint; required without `discovery`.
    #[schemars(length(min = 1, max = 4096))]
    pub token_endpoint: Option<String>,
    /// Address of the resource registration endpoint, for `lazy_load_paths`.
    #[schemars(length(min = 1, max = 4096))]
    pub resource_registration_endpoint: Option<String>,
    /// Id of the gateway as a client of Keycloak.
    #[schemars(length(min = 1, max = 100))]
    pub client_id: String,
    /// Secret of the client.
    #[schemars(length(min = 1, max = 100))]
    pub client_secret: Option<SecretText>,
    /// Kind of grant that decisions use; there is only one.
    #[serde(default)]
    #[schemars(length(min = 1, max = 100))]
    pub grant_type: GrantType,
    /// Treatment of requests without permissions: refused with `ENFORCING`, the default.
    #[serde(default)]
    pub policy_enforcement_mode: Enforcement,
    /// Permissions of every request: `resource`, `resource#scope` or `resource#scope,scope`. All scopes of
    /// all permissions have to be granted; together they are at most 32.
    #[serde(default)]
    pub permissions: Vec<String>,
    /// Whether Keycloak is asked for the resources of the path; off by default.
    #[serde(default)]
    pub lazy_load_paths: bool,
    /// Whether the method has to be granted too, as a scope of each resource; off by default.
    #[serde(default)]
    pub http_method_as_scope: bool,
    /// Timeout for an answer of Keycloak, in milliseconds; 3000 by default.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1_000))]
    pub timeout: u64,
    /// Whether Keycloak's TLS certificate is verified; on by default.
    #[serde(default = "default_true")]
    pub ssl_verify: bool,
    /// Seconds after which the discovery document is read again; a day by default.
    #[serde(default = "default_cache_ttl")]
    #[schemars(range(min = 1))]
    pub cache_ttl_seconds: u64,
    /// Whether connections to Keycloak are reused; on by default.
    #[serde(default = "default_true")]
    pub keepalive: bool,
    /// Time after which an idle connection is closed, in milliseconds; 60000 by default.
    #[serde(default = "default_keepalive_timeout")]
    #[schemars(range(min = 1_000))]
    pub keepalive_timeout: u64,
    /// Number of idle connections that each core keeps at most; 5 by default.
    #[serde(default = "default_keepalive_pool")]
    #[schemars(range(min = 1))]
    pub keepalive_pool: u64,
    /// Address to which refused clients are redirected (307).
    #[schemars(length(min = 1, max = 2048))]
    pub access_denied_redirect_uri: Option<String>,
    /// Lifetime of the gateway's own token in seconds, if Keycloak does not tell; 300 by default.
    #[serde(default = "default_access_lifetime")]
    #[schemars(range(min = 1))]
    pub access_token_expires_in: u64,
    /// Seconds by which that token is renewed earlier; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub access_token_expires_leeway: u64,
    /// Accepted and without effect, because no refresh token is used; 3600 by default.
    #[serde(default = "default_refresh_lifetime")]
    #[schemars(range(min = 1))]
    pub refresh_token_expires_in: u64,
    /// Accepted and without effect, because no refresh token is used; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub refresh_token_expires_leeway: u64,
    /// Path and query at which clients get a token for a name and a password.
    #[schemars(length(min = 1, max = 4096))]
    pub password_grant_token_generation_incoming_uri: Option<String>,
}

/// Kind of grant that decisions use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum GrantType {
    #[default]
    #[serde(rename = "urn:ietf:params:oauth:grant-type:uma-ticket")]
    UmaTicket,
}

/// Treatment of requests without permissions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Enforcement {
    /// Refused.
    #[default]
    Enforcing,
    /// Keycloak decides about the token alone.
    Permissive,
}

defaults! {
    default_body_bytes_max: u64 = 64 << 20;
    default_cache_ttl: u64 = 86_400;
    default_access_lifetime: u64 = 300;
    default_refresh_lifetime: u64 = 3_600;
}

#[derive(Debug)]
pub struct AuthzKeycloak {
    server: Arc<Keycloak>,
    enforcement: Enforcement,
    permissions: Vec<String>,
    is_lazy: bool,
    method_is_scope: bool,
    denied_uri: Option<String>,
    password_uri: Option<String>,
    form_bytes_max: u64,
}

impl Plugin for AuthzKeycloak {
    const NAME: &'static str = "authz-keycloak";
    const PRIORITY: i32 = 2000;
    const CATEGORY: Category = Category::Security;
    const PHASES: Phases = Phases::ACCESS;
    const ENCRYPTED: &'static [&'static str] = &["client_secret"];
    const SENT_TO: &'static [&'static str] =
        &["discovery", "token_endpoint", "resource_registration_endpoint", "ssl_verify"];
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let permissions = &mut schema["properties"]["permissions"];
        permissions["uniqueItems"] = json!(true);
        permissions["items"] = json!({"type": "string", "minLength": 1, "maxLength": 100});
        let lazy = |is_on: bool| json!({"lazy_load_paths": {"enum": [is_on]}});
        schema["allOf"] = json!([
            {"anyOf": [{"required": ["discovery"]}, {"required": ["token_endpoint"]}]},
            {"anyOf": [
                {"properties": lazy(false)},
                {
                    "properties": lazy(true),
                    "anyOf": [
                        {"required": ["discovery"]},
                        {"required": ["resource_registration_endpoint"]},
                    ],
                },
            ]},
        ]);
    }

    fn compile(config: Config, scope: &Scope<'_>) -> Result<Self, ConfError> {
        // The key has no secret, because the conf's text may be a reference to one.
        let key = scope.identity(Self::NAME);
        let method = config.http_method_as_scope.then_some("GET");
        let count = decisions_of(&config.permissions, method).len();
        if !config.lazy_load_paths && count > DECISIONS_MAX {
            let text = format!("{count} decisions per request: at most {DECISIONS_MAX} are allowed");
            return Err(ConfError::in_field("permissions", text));
        }
        let server = scope.keep(&key, || Keycloak::new(&config));
        Ok(Self {
            server,
            enforcement: config.policy_enforcement_mode,
            permissions: config.permissions,
            is_lazy: config.lazy_load_paths,
            method_is_scope: config.http_method_as_scope,
            denied_uri: config.access_denied_redirect_uri,
            password_uri: config.password_grant_token_generation_incoming_uri,
            form_bytes_max: config.max_req_body_size.min(FORM_BYTES_MAX),
        })
    }

    fn access<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        Step::wait(async move {
            let ended = match self.asks_for_token(cx) {
                true => Err(self.grant_token(cx).await),
                false => self.decide(cx).await,
            };
            match ended {
                Ok(()) => Flow::Continue,
                Err(answer) => answer.borrowed().into(),
            }
        })
    }
}

impl AuthzKeycloak {
    fn asks_for_token(&self, cx: &RequestContext<'_>) -> bool {
        let form = b"application/x-www-form-urlencoded";
        let Some(uri) = &self.password_uri else { return false };
        cx.method() == b"POST"
            && *cx.request_uri() == *uri.as_bytes()
            && cx.header("Content-Type").as_deref() == Some(form)
    }

    async fn decide(&self, cx: &mut RequestContext<'_>) -> Result<(), Answer<'static>> {
        let token = cx.header("Authorization").ok_or_else(|| {
            Answer::message(401, "Missing JWT token in request").refused(RefusalKind::AuthMissing)
        })?;
        let token = match token.starts_with(b"Bearer ") || token.starts_with(b"bearer ") {
            true => token.into_owned(),
            false => [b"Bearer ", &*token].concat(),
        };
        let decisions = self.decisions(cx).await?;
        if decisions.is_empty() && self.enforcement == Enforcement::Enforcing {
            let body = r#"{"error":"access_denied","error_description":"not_authorized"}"#;
            return Err(self.denied(403, body.into()));
        }
        if decisions.is_empty() {
            self.require(&token, None, cx.now()).await?;
        }
        for decision in &decisions {
            self.require(&token, Some(decision), cx.now()).await?;
        }
        let grant = digest_of([token.as_slice()]);
        cx.note_identity(Identity { by: Self::NAME, name: b"", grant: grant.as_ref() });
        Ok(())
    }

    /// Returns the permissions that a request needs, each as one decision.
    async fn decisions(&self, cx: &RequestContext<'_>) -> Result<Vec<String>, Answer<'static>> {
        let method = self.method_is_scope.then(|| text(cx.method()).into_owned());
        // These characters separate the parts of a permission.
        if method.as_ref().is_some_and(|method| method.contains(['#', ','])) {
            let answer = Answer::message(400, "invalid method");
            return Err(answer.refused(RefusalKind::RequestInvalid));
        }
        if !self.is_lazy {
            return Ok(decisions_of(&self.permissions, method.as_deref()));
        }
        let path = text(cx.path()).into_owned();
        let resources = self.server.resources(&path, cx.now()).await;
        let resources = resources.map_err(|failure| unavailable(&failure))?;
        let decisions = decisions_of(&resources, method.as_deref());
        if decisions.len() > DECISIONS_MAX {
            tracing::warn!(count = decisions.len(), "a path has too many resources in Keycloak");
            return Err(Answer::status(503).refused(RefusalKind::PluginFailed));
        }
        Ok(decisions)
    }

    /// Refuses a token to which Keycloak does not grant a permission.
    async fn require(
        &self,
        token: &[u8],
        permission: Option<&str>,
        now: Moment,
    ) -> Result<(), Answer<'static>> {
        let reply = self.server.decide(token, permission, now).await;
        let reply = reply.map_err(|failure| unavailable(&failure))?;
        match reply.status {
            200 if reply.is_granted() => Ok(()),
            status @ 400.. => Err(self.denied(status, reply.body)),
            status => {
                tracing::warn!(status, "Keycloak's decision has no result");
                Err(Answer::status(503).refused(RefusalKind::PluginFailed))
            }
        }
    }

    /// Returns the answer to a refused request.
    fn denied(&self, status: u16, body: Vec<u8>) -> Answer<'static> {
        let answer = match (&self.denied_uri, status) {
            (Some(uri), 403) => {
                Answer::status(307).with_header("Location", uri.clone().into_bytes())
            }
            _ => Answer::text(status, body),
        };
        answer.refused(match status {
            401 => RefusalKind::AuthInvalid,
            _ => RefusalKind::DeniedByRule,
        })
    }

    /// Answers a name and a password with Keycloak's tokens.
    async fn grant_token(&self, cx: &mut RequestContext<'_>) -> Answer<'static> {
        let Ok(form) = cx.read_body(self.form_bytes_max).await else {
            return Answer::status(503).refused(RefusalKind::RequestInvalid);
        };
        let field = |name: &str| query_argument(form, name).map(|value| text(&value).into_owned());
        let missing = |text| Answer::message(422, text).refused(RefusalKind::RequestInvalid);
        let Some(username) = field("username") else { return missing("username is missing.") };
        let Some(password) = field("password") else { return missing("password is missing.") };
        let now = cx.now();
        match self.server.password_grant(username, password, now).await {
            Ok(reply) if reply.status == 200 && reply.is_json() => Answer::text(200, reply.body),
            Ok(_) => Answer::message(401, "Could not decode JSON from response.")
                .refused(RefusalKind::AuthInvalid),
            Err(Failure::NoEndpoint(text)) => {
                Answer::message(503, text).refused(RefusalKind::PluginFailed)
            }
            Err(failure) => {
                tracing::warn!(%failure, "Keycloak gives no token");
                let text = "Accessing token endpoint URL failed.";
                Answer::message(401, text).refused(RefusalKind::PluginFailed)
            }
        }
    }
}

/// Splits permissions into those with one scope each, and adds the method to each resource. Spaces beside
/// commas are dropped, because Keycloak takes them for a part of the scope.
fn decisions_of(permissions: &[String], method: Option<&str>) -> Vec<String> {
    let mut decisions: Vec<String> = Vec::new();
    let mut add = |decision: String| {
        if !decisions.contains(&decision) {
            decisions.push(decision);
        }
    };
    for permission in permissions.iter().take(DECISIONS_MAX + 1) {
        let (resource, scopes) = permission.split_once('#').unwrap_or((permission, ""));
        let scopes = scopes.split(',').map(str::trim).chain(method);
        let mut scopes = scopes.filter(|scope| !scope.is_empty()).peekable();
        if scopes.peek().is_none() {
            add(resource.to_owned());
        }
        scopes.for_each(|scope| add(format!("{resource}#{scope}")));
    }
    decisions
}

/// Returns the answer if Keycloak gives no decision.
fn unavailable(failure: &Failure) -> Answer<'static> {
    tracing::warn!(%failure, "Keycloak gives no decision");
    let answer = match failure {
        Failure::NoEndpoint(text) => Answer::text(503, text.as_bytes()),
        _ => Answer::status(503),
    };
    answer.refused(RefusalKind::PluginFailed)
}

#[cfg(test)]
mod tests;
