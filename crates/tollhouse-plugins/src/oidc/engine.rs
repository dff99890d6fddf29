//! Admission of requests: by a bearer token, by a session, or by starting a login.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollhouse_model::schema::Schema;
use tollhouse_plugin::{Answer, Carrier, Identity, RefusalKind, RequestContext};

use super::checks::{Claims, NOT_VALID_YET, Rules, has_scopes, is_for};
use super::error::{TokenError, Unavailable};
use super::flow::Login;
use super::introspection::{Introspection, IntrospectionRequest};
use super::now::Now;
use super::provider::Provider;
use super::tokens::Client;
use crate::shared::auth::grant::{digest_of, note_claims};

/// Lines of `Set-Cookie` for an answer.
pub(crate) type CookieLines = Vec<String>;

/// Answer of the gateway, in place of one from a node.
pub(crate) type Refusal = Box<Answer<'static>>;

/// Engine of one client of a provider, from a conf.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) realm: String,
    pub(crate) client: Client,
    pub(crate) provider: Arc<Provider>,
    pub(crate) rules: Rules,
    pub(crate) access: AccessRules,
    pub(crate) bearer: Bearer,
    /// Login; `None` if only tokens are accepted.
    pub(crate) login: Option<Login>,
    pub(crate) otherwise: Otherwise,
}

/// Treatment of bearer tokens in requests.
#[derive(Debug)]
pub(crate) enum Bearer {
    Ignored,
    /// Verified with the provider's published keys.
    Verified,
    /// Verified by asking the provider about each.
    Introspected(Box<Introspection>),
}

/// Treatment of requests without a known user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    LogIn,
    Refuse,
    Pass,
}

/// Requirements that an authenticated user must fulfil.
#[derive(Debug, Default)]
pub(crate) struct AccessRules {
    pub(crate) scopes: Vec<String>,
    pub(crate) audience: Option<Audience>,
    pub(crate) schema: Option<Schema>,
}

/// Required audience of a token, in the claim `claim`.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) claim: String,
    pub(crate) is_required: bool,
    /// Whether the token must be for this client.
    pub(crate) is_this_client: bool,
}

/// Authenticated user, with the tokens that nodes receive.
#[derive(Debug, Default)]
pub(crate) struct User {
    pub(crate) access_token: Option<String>,
    pub(crate) userinfo: Option<Arc<Claims>>,
    pub(crate) id_token: Option<Claims>,
    pub(crate) raw_id_token: Option<String>,
    pub(crate) refresh_token: Option<String>,
}

pub(crate) enum Admission {
    /// Passes, with its user if there is one. The answer sets these cookies.
    Passes(Option<Box<User>>, CookieLines),
    Answered(Refusal),
}

impl Engine {
    /// Decides about a request. `token_header` is the client's value of another header that may
    /// carry a token.
    pub(crate) async fn admit(
        &self,
        cx: &mut RequestContext<'_>,
        token_header: Option<Vec<u8>>,
    ) -> Admission {
        match self.try_admit(cx, token_header).await {
            Ok(admission) => admission,
            Err(refusal) => Admission::Answered(refusal),
        }
    }

    async fn try_admit(
        &self,
        cx: &mut RequestContext<'_>,
        token_header: Option<Vec<u8>>,
    ) -> Result<Admission, Refusal> {
        let now = Now::from_context(cx);
        if !matches!(self.bearer, Bearer::Ignored) {
            if let Some(token) = bearer_token(cx, token_header)? {
                let who = self.by_token(cx, &token, now).await?;
                cx.edits().identities.explain(Carrier::Authorization);
                return Ok(Admission::Passes(Some(Box::new(who)), CookieLines::new()));
            }
            if self.login.is_none() {
                return Err(self.challenge(None));
            }
        }
        let Some(login) = &self.login else { return Err(self.challenge(None)) };
        login.admit(self, cx, now).await
    }

    async fn by_token(
        &self,
        cx: &RequestContext<'_>,
        token: &str,
        now: Now,
    ) -> Result<User, Refusal> {
        let checked = match &self.bearer {
            Bearer::Introspected(introspection) => {
                let names = introspection.addon_headers.iter();
                let headers =
                    names.filter_map(|name| Some((name.clone(), cx.header(name)?.into_owned())));
                let client_id = &*self.client.id;
                let request = IntrospectionRequest { token, headers: headers.collect(), client_id };
                introspection.claims(&self.provider, request, now).await
            }
            _ => self.rules.check_bearer(token, &self.provider, now).await.map(Arc::new),
        };
        let claims = checked.map_err(|error| match error {
            TokenError::Refused(reason) => {
                tracing::debug!(reason, "a token is refused");
                self.challenge(Some(reason))
            }
            TokenError::Unavailable(error) => away(&error),
        })?;
        self.check_scopes(claims.get("scope").or_else(|| claims.get("scp")))?;
        self.check_audience(&claims)?;
        if let Some(schema) = &self.access.schema {
            self.check_schema(schema, &Value::Object((*claims).clone()))?;
        }
        Ok(User { access_token: Some(token.to_owned()), userinfo: Some(claims), ..User::default() })
    }

    /// Checks that all required scopes were granted.
    ///
    /// # Errors
    /// If a scope is missing; the error is the answer.
    pub(crate) fn check_scopes(&self, granted: Option<&Value>) -> Result<(), Refusal> {
        let required = &self.access.scopes;
        if has_scopes(granted, required) {
            return Ok(());
        }
        Err(forbidden(&format!("required scopes {} not present", required.join(", "))))
    }

    fn check_audience(&self, claims: &Claims) -> Result<(), Refusal> {
        let Some(rule) = &self.access.audience else { return Ok(()) };
        let found = claims.get(&rule.claim).filter(|found| !found.is_null());
        if found.is_none() && (rule.is_required || rule.is_this_client) {
            return Err(forbidden("required audience claim not present"));
        }
        if rule.is_this_client && !is_for(found, &self.client.id) {
            return Err(forbidden("mismatched audience"));
        }
        Ok(())
    }

    /// Checks the user's data against the configured schema.
    ///
    /// # Errors
    /// If the data does not satisfy the schema; the error is the answer.
    pub(crate) fn check_schema(&self, schema: &Schema, known: &Value) -> Result<(), Refusal> {
        schema.validate(known).map_err(|violation| {
            tracing::debug!(reason = %String::from(violation), "claims are refused");
            self.challenge(Some("the claims are not as the gateway wants them"))
        })
    }

    /// Builds a 401 that asks for a token, with the reason if there was an invalid one (RFC 6750
    /// §3).
    pub(crate) fn challenge(&self, reason: Option<&str>) -> Refusal {
        let mut value = format!("Bearer realm=\"{}\"", quotable(&self.realm));
        if let Some(reason) = reason {
            let reason = quotable(reason);
            value.push_str(&format!(", error=\"invalid_token\", error_description=\"{reason}\""));
        }
        let kind = match reason {
            None => RefusalKind::AuthMissing,
            // A token of the future is one of a clock that is ahead, or ours is behind.
            Some(NOT_VALID_YET) => RefusalKind::ClockDiffers,
            Some(_) => RefusalKind::AuthInvalid,
        };
        let answer = Answer::status(401).refused(kind);
        Box::new(answer.with_header("WWW-Authenticate", value.into_bytes()))
    }
}

/// Returns the bearer token of `Authorization`, or that of another header if there is no such line.
fn bearer_token(
    cx: &RequestContext<'_>,
    token_header: Option<Vec<u8>>,
) -> Result<Option<String>, Refusal> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let Some(line) = cx.header("Authorization") else {
        return Ok(token_header.as_deref().and_then(text).filter(|token| !token.is_empty()));
    };
    let line: Cow<'_, [u8]> = line;
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let (scheme, token) = (parts.next().unwrap_or_default(), parts.next());
    let Some(token) = token else {
        return Err(Box::new(Answer::status(400).refused(RefusalKind::RequestInvalid)));
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(None);
    }
    // Invalid UTF-8 counts as an invalid token, not as a missing one.
    Ok(Some(text(token.trim_ascii()).unwrap_or_default()))
}

/// Removes characters that are not allowed in a quoted string of a header.
fn quotable(text: &str) -> String {
    let is_fit = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    text.chars().filter(is_fit).collect()
}

fn forbidden(error: &str) -> Refusal {
    let answer = Answer::text(403, json!({ "error": error }).to_string().into_bytes());
    Box::new(answer.refused(RefusalKind::DeniedByRule))
}

/// Builds the answer while the provider does not answer.
pub(crate) fn away(error: &Unavailable) -> Refusal {
    tracing::debug!(%error, "requests are refused while the identity provider gives no answer");
    let answer = Answer::message(503, "the identity provider gives no answer");
    Box::new(answer.refused(RefusalKind::PluginFailed))
}

impl User {
    /// Records the user's identity: by the provider's claims, or else by the token.
    pub(crate) fn note(&self, cx: &mut RequestContext<'_>, by: &'static str) {
        let mut claims = self.id_token.clone().unwrap_or_default();
        let told = self.userinfo.iter().flat_map(|claims| claims.iter());
        claims.extend(told.map(|(name, value)| (name.clone(), value.clone())));
        if !claims.is_empty() {
            return note_claims(cx, by, &claims);
        }
        let token = self.access_token.as_deref().unwrap_or_default();
        let grant = digest_of([token.as_bytes()]);
        cx.note_identity(Identity { by, name: b"", grant: grant.as_ref() });
    }

    /// Returns all data of a logged-in user, for schemas.
    pub(crate) fn document(&self) -> Value {
        let mut known = Map::new();
        if let Some(user) = &self.userinfo {
            known.insert("user".to_owned(), Value::Object((**user).clone()));
        }
        if let Some(token) = &self.access_token {
            known.insert("access_token".to_owned(), token.as_str().into());
        }
        if let Some(claims) = &self.id_token {
            known.insert("id_token".to_owned(), Value::Object(claims.clone()));
        }
        Value::Object(known)
    }
}
