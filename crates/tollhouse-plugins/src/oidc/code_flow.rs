//! Log-in of people at a provider, for the control side: the address to which a browser is sent,
//! and the claims of the user that comes back (authorization code flow with PKCE, OpenID Connect
//! Core §3.1).
//!
//! The caller keeps the state of a log-in and decides which users are admitted. Documents, keys and
//! checks of tokens are those of the plugins.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use super::checks::{Claims, IdTokenChecks, Rules, text_of};
use super::client::ClientAuth;
use super::error::{TokenError, Unavailable};
use super::flow::printable;
use super::form::with_query;
pub use super::now::Now;
use super::provider::{Document, Provider, Source};
use super::tokens::{Client, GrantError};
use crate::shared::auth::secret::SecretText;

/// Maximum size of an answer of the provider in bytes. Documents, keys and tokens have a few
/// thousand.
pub const REPLY_BYTES_MAX: usize = 1 << 20;

/// Tolerated difference between the clocks of the provider and this machine, in seconds.
const LEEWAY_S: u64 = 60;

/// Age in milliseconds from which the provider's keys are fetched again.
const KEYS_AGE_MAX_MS: u64 = 3_600_000;

/// Claims of which a log-in needs one, to name the user. Without any of them in the ID token, the
/// provider is asked for its user data.
const NAMES: [&str; 3] = ["preferred_username", "email", "name"];

/// Client of a provider that logs people in.
#[derive(Debug)]
pub struct CodeFlow {
    provider: Provider,
    rules: Rules,
    client: Client,
    scope: String,
    /// Claim with the user's groups, if they are needed.
    groups_claim: Option<String>,
}

/// Settings of a [`CodeFlow`].
#[derive(Debug)]
pub struct CodeFlowSettings<'s> {
    pub issuer: &'s str,
    pub client_id: &'s str,
    /// Secret of the client; `None` for a public client, which PKCE alone protects.
    pub client_secret: Option<&'s str>,
    pub scopes: &'s [String],
    /// Claim with the user's groups, if they are needed. If the ID token lacks it, the provider is
    /// asked for its user data.
    pub groups_claim: Option<&'s str>,
}

/// Secrets and return address of one log-in. `state`, `nonce` and `verifier` are unpredictable;
/// the verifier has 43 to 128 characters that are valid in URLs (RFC 7636 §4.1).
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    pub verifier: &'a str,
}

/// Parameters of the provider's answer, whose `state` the caller has checked.
#[derive(Debug, Clone, Copy, Default)]
pub struct CodeAnswer<'a> {
    pub code: &'a str,
    /// Issuer that the answer names (RFC 9207).
    pub issuer: Option<&'a str>,
    /// Error, and its description.
    pub error: Option<(&'a str, &'a str)>,
}

/// Reason for which no user is logged in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeFlowError {
    /// The provider does not answer, or not usably.
    #[error("{0}")]
    Unavailable(String),
    /// The provider refuses the user or the code, or its token is invalid.
    #[error("{0}")]
    Refused(String),
}

impl From<Unavailable> for CodeFlowError {
    fn from(error: Unavailable) -> Self {
        Self::Unavailable(error.to_string())
    }
}

impl From<GrantError> for CodeFlowError {
    fn from(error: GrantError) -> Self {
        match error {
            GrantError::Refused(reason) => Self::Refused(reason),
            GrantError::Unavailable(error) => error.into(),
        }
    }
}

impl From<TokenError> for CodeFlowError {
    fn from(error: TokenError) -> Self {
        match error {
            TokenError::Refused(reason) => Self::Refused(reason.to_owned()),
            TokenError::Unavailable(error) => error.into(),
        }
    }
}

impl CodeFlow {
    /// Creates the client; requests are sent with `http`, within its limits.
    pub fn new(settings: &CodeFlowSettings<'_>, http: tollhouse_web::Client) -> Self {
        let CodeFlowSettings { issuer, client_id, client_secret, scopes, groups_claim } = settings;
        let source = Source::issuer(issuer.trim_end_matches('/'));
        let secret = client_secret.map(|secret| SecretText::from(secret.to_owned()));
        Self {
            provider: Provider::for_control(source, http),
            rules: Rules {
                key: None,
                algorithms: Vec::new(),
                issuers: None,
                leeway_s: LEEWAY_S,
                keys_age_max_ms: KEYS_AGE_MAX_MS,
                accepts_unsigned: false,
            },
            client: Client {
                id: (*client_id).to_owned(),
                auth: secret.clone().map_or(ClientAuth::Public, ClientAuth::Basic),
                secret,
            },
            scope: scopes.join(" "),
            groups_claim: groups_claim.map(str::to_owned),
        }
    }

    /// Returns the address of the provider at which the user logs in.
    ///
    /// # Errors
    /// If the provider's discovery document is unavailable.
    pub async fn address(&self, attempt: Attempt<'_>, now: Now) -> Result<String, CodeFlowError> {
        let document = self.provider.document(now.ms).await?;
        let endpoint = document.authorization_endpoint.as_deref();
        let endpoint =
            endpoint.ok_or_else(|| Unavailable::new("authorization", "no endpoint is known"))?;
        let challenge = digest::digest(&digest::SHA256, attempt.verifier.as_bytes());
        let parameters = [
            ("response_type", "code"),
            ("client_id", &self.client.id),
            ("redirect_uri", attempt.redirect_uri),
            ("scope", &self.scope),
            ("state", attempt.state),
            ("nonce", attempt.nonce),
            ("code_challenge", &URL_SAFE_NO_PAD.encode(challenge)),
            ("code_challenge_method", "S256"),
        ];
        Ok(with_query(endpoint, &parameters.map(|(name, value)| (name, value.to_owned()))))
    }

    /// Exchanges the code of an answer, and returns the claims of the user, `iss` and `sub`
    /// included.
    ///
    /// # Errors
    /// If the answer is an error or not the provider's, the code or the ID token is refused, or the
    /// provider is unavailable.
    pub async fn claims(
        &self,
        answer: CodeAnswer<'_>,
        attempt: Attempt<'_>,
        now: Now,
    ) -> Result<Claims, CodeFlowError> {
        let refused = |reason: &str| CodeFlowError::Refused(reason.to_owned());
        let document = self.provider.document(now.ms).await?;
        let is_other = |issuer: &str| issuer != document.issuer;
        if answer.issuer.map_or(document.names_itself, is_other) {
            return Err(refused("the answer is not the identity provider's"));
        }
        if let Some((error, description)) = answer.error {
            let said = printable(&format!("{error} {description}"));
            return Err(CodeFlowError::Refused(format!("the identity provider refuses: {said}")));
        }
        if answer.code.is_empty() {
            return Err(refused("the answer has no code"));
        }
        let fields = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", answer.code.to_owned()),
            ("redirect_uri", attempt.redirect_uri.to_owned()),
            ("code_verifier", attempt.verifier.to_owned()),
        ];
        let tokens = self.client.request_tokens(&self.provider, fields, now).await?;
        let id_token = tokens.id_token.ok_or_else(|| refused("the provider sends no ID token"))?;
        let expected = IdTokenChecks {
            client_id: &self.client.id,
            // Signatures with the shared secret are refused: the provider has keys of its own.
            client_secret: None,
            nonce: Some((attempt.nonce, true)),
            subject: None,
        };
        let checked = self.rules.check_id_token(&id_token, &self.provider, &expected, now);
        let mut claims = checked.await?;
        check_completeness(&claims)?;
        if self.lacks_user_data(&claims) {
            self.add_user_data(&mut claims, &tokens.access_token, &document).await?;
        }
        Ok(claims)
    }

    /// Whether the user data of the provider may have claims that the ID token lacks.
    fn lacks_user_data(&self, claims: &Claims) -> bool {
        let is_nameless = NAMES.iter().all(|name| !claims.contains_key(*name));
        let lacks_groups = self.groups_claim.as_ref().is_some_and(|path| {
            // Of a claim inside another, the outer one decides.
            let outer = path.split('.').next().unwrap_or_default();
            !claims.contains_key(path) && !claims.contains_key(outer)
        });
        is_nameless || lacks_groups
    }

    /// Adds claims of the provider's user data. Those of the ID token are not replaced.
    async fn add_user_data(
        &self,
        claims: &mut Claims,
        access_token: &str,
        document: &Document,
    ) -> Result<(), CodeFlowError> {
        let Some(endpoint) = document.userinfo_endpoint.as_deref() else { return Ok(()) };
        let Some(more) = self.provider.userinfo(endpoint, access_token).await else {
            let reason = "userinfo: the provider gives no data about the user";
            return Err(CodeFlowError::Unavailable(reason.to_owned()));
        };
        // The data may belong to another user (OpenID Connect Core §5.3.2).
        if text_of(&more, "sub") != text_of(claims, "sub") {
            let reason = "userinfo has another subject than the ID token";
            return Err(CodeFlowError::Refused(reason.to_owned()));
        }
        for (name, value) in more {
            claims.entry(name).or_insert(value);
        }
        Ok(())
    }
}

/// Checks what OpenID Connect Core §2 and §3.1.3.7 require beyond the checks of the plugins: the
/// time of issue, and an authorized party if there are several audiences.
fn check_completeness(claims: &Claims) -> Result<(), CodeFlowError> {
    let refused = |reason: &str| Err(CodeFlowError::Refused(reason.to_owned()));
    if !claims.contains_key("iat") {
        return refused("the ID token has no time of issue");
    }
    let audiences = claims.get("aud").and_then(Value::as_array).map_or(1, Vec::len);
    if audiences > 1 && !claims.contains_key("azp") {
        return refused("the ID token has several audiences and no authorized party");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
