//! Who may pass: by a token that the request brings, else by a session, else by a log-in that begins.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use tollhouse_model::schema::Schema;
use tollhouse_plugin::{Answer, Carrier, Identity, RequestContext};

use super::checks::{Claims, Rules, has_scopes, is_for};
use super::error::{TokenError, Unavailable};
use super::flow::Login;
use super::introspection::Introspection;
use super::provider::Provider;
use super::tokens::Client;
use crate::shared::auth::grant::{digest_of, note_claims};

/// Header lines that an answer sets cookies by.
pub(crate) type CookieLines = Vec<String>;

/// An answer in place of a node's.
pub(crate) type Refusal = Box<Answer<'static>>;

/// One client of a provider, as a conf says it.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) realm: String,
    pub(crate) client: Client,
    pub(crate) provider: Arc<Provider>,
    pub(crate) rules: Rules,
    pub(crate) access: AccessRules,
    pub(crate) bearer: Bearer,
    /// How users log in; `None` where tokens are all that counts.
    pub(crate) login: Option<Login>,
    pub(crate) otherwise: Otherwise,
}

/// What becomes of tokens that requests bring.
#[derive(Debug)]
pub(crate) enum Bearer {
    /// They are not looked at.
    Ignored,
    /// They are verified here.
    Verified,
    /// The provider is asked about each.
    Introspected(Box<Introspection>),
}

/// What becomes of requests of which nobody knows whose they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Otherwise {
    LogIn,
    Refuse,
    Pass,
}

/// What is asked of those who are known.
#[derive(Debug, Default)]
pub(crate) struct AccessRules {
    pub(crate) scopes: Vec<String>,
    pub(crate) audience: Option<Audience>,
    pub(crate) schema: Option<Schema>,
}

/// For whom a token has to be.
#[derive(Debug)]
pub(crate) struct Audience {
    pub(crate) claim: String,
    pub(crate) is_required: bool,
    /// Whether it has to be for this client.
    pub(crate) is_this_client: bool,
}

/// Whose request it is.
#[derive(Debug, Default)]
pub(crate) struct Who {
    pub(crate) access_token: Option<String>,
    pub(crate) userinfo: Option<Arc<Claims>>,
    pub(crate) id_token: Option<Claims>,
    pub(crate) raw_id_token: Option<String>,
    pub(crate) refresh_token: Option<String>,
}

/// What becomes of a request.
pub(crate) enum Admission {
    /// It passes, as this user's or as nobody's; the answer sets these cookies.
    Passes(Option<Box<Who>>, CookieLines),
    Answered(Refusal),
}

/// Now, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub(crate) ms: u64,
    /// Seconds since 1970.
    pub(crate) unix_s: u64,
}

impl Now {
    pub(crate) fn from_context(cx: &RequestContext<'_>) -> Self {
        let now = cx.now();
        Self { ms: now.monotonic_ms, unix_s: now.unix_ms / 1_000 }
    }

    pub(crate) fn pair(self) -> (u64, u64) {
        (self.ms, self.unix_s)
    }
}

impl Engine {
    /// Decides about a request. `token_header` is a header that may carry a token besides `Authorization`, as the
    /// client has sent it.
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
    ) -> Result<Who, Refusal> {
        let checked = match &self.bearer {
            Bearer::Introspected(introspection) => {
                let names = introspection.addon_headers.iter();
                let headers =
                    names.filter_map(|name| Some((name.clone(), cx.header(name)?.into_owned())));
                let (headers, asked) = (headers.collect(), (&*self.provider, &*self.client.id));
                introspection.ask(token, headers, asked, now.pair()).await
            }
            _ => self.rules.check_bearer(token, &self.provider, now.pair()).await.map(Arc::new),
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
        Ok(Who { access_token: Some(token.to_owned()), userinfo: Some(claims), ..Who::default() })
    }

    /// Whether enough was granted.
    ///
    /// # Errors
    /// The answer where it was not.
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

    /// Whether what is known of the user is as the conf wants it.
    ///
    /// # Errors
    /// The answer where it is not.
    pub(crate) fn check_schema(&self, schema: &Schema, known: &Value) -> Result<(), Refusal> {
        schema.validate(known).map_err(|violation| {
            tracing::debug!(reason = %String::from(violation), "claims are refused");
            self.challenge(Some("the claims are not as the gateway wants them"))
        })
    }

    /// Asks for a token; where there was one, with what is wrong with it (RFC 6750 §3).
    pub(crate) fn challenge(&self, reason: Option<&str>) -> Refusal {
        let mut value = format!("Bearer realm=\"{}\"", quotable(&self.realm));
        if let Some(reason) = reason {
            let reason = quotable(reason);
            value.push_str(&format!(", error=\"invalid_token\", error_description=\"{reason}\""));
        }
        Box::new(Answer::status(401).with_header("WWW-Authenticate", value.into_bytes()))
    }
}

/// The token of `Authorization`, or the one of another header where there is no such line.
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
        return Err(Box::new(Answer::status(400)));
    };
    if !scheme.eq_ignore_ascii_case(b"bearer") {
        return Ok(None);
    }
    // What is no text is no token, and still one that was brought.
    Ok(Some(text(token.trim_ascii()).unwrap_or_default()))
}

/// What can stand between quotes in a header.
fn quotable(text: &str) -> String {
    let is_fit = |letter: &char| matches!(letter, ' '..='~') && !matches!(letter, '"' | '\\');
    text.chars().filter(is_fit).collect()
}

fn forbidden(error: &str) -> Refusal {
    Box::new(Answer::text(403, json!({ "error": error }).to_string().into_bytes()))
}

/// The answer while the provider gives none.
pub(crate) fn away(error: &Unavailable) -> Refusal {
    tracing::debug!(%error, "requests are refused while the identity provider gives no answer");
    Box::new(Answer::message(503, "the identity provider gives no answer"))
}

impl Who {
    /// Notes the user for whatever keeps users apart: by what the provider says, or else by the token.
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

    /// What schemas are asked about: all that is known of a user who has logged in.
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
