//! Admits requests with a JSON Web Token signed by a consumer's key, and tells nodes which consumer
//! it is.
//!
//! The token is searched in a header (with or without `Bearer `), then in a query argument, then in
//! a cookie. One claim names the consumer, whose credential defines how the signature is verified.
//!
//! # Example
//! ```json
//! {"key_claim_name": "iss", "hide_credentials": true, "claims_to_verify": ["exp"]}
//! ```
//!
//! # Answers
//! - 401 `Missing JWT token in request`, 401 `JWT token invalid`
//! - 401 `missing user key in JWT token`, 401 `Invalid user key in JWT token`
//! - 401 `failed to verify jwt` for a bad signature, an algorithm other than the consumer's, a
//!   header with `crit`, and claims that do not hold
//! - 401 `Invalid user authorization` when the anonymous consumer does not exist
//!
//! # Notes
//! The gateway does not issue tokens. RSA keys need at least 1024 bits, and 2048 for RS384 and PS*.
//! `hide_credentials` removes the token only from requests that pass.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tollhouse_model::secret::is_reference;
use tollhouse_plugin::consumer::Identity;
use tollhouse_plugin::user::TokenPayload;
use tollhouse_plugin::{
    Carrier, Category, ConfError, ConsumerSpec, Credential, Phases, Plugin, RequestContext, Scope,
    Step,
};

use crate::shared::auth::base64::decode_base64;
use crate::shared::auth::credentials::{hide_argument, hide_cookie};
use crate::shared::auth::gate::{Gate, REALM_PATTERN, Rejection};
use crate::shared::auth::grant::note_claims;
use crate::shared::auth::jwt::{Token, Verifier};
use crate::shared::auth::scheme::credentials;
use crate::shared::auth::secret::SecretText;
use crate::shared::confs::defaults::defaults;

pub use crate::shared::auth::jwt::Algorithm;

#[cfg(test)]
mod tests;

/// Configuration of `jwt-auth`.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct Config {
    /// Header that carries the token; `authorization` by default.
    #[serde(default = "default_header")]
    pub header: String,
    /// Query argument that carries the token if the header does not; `jwt` by default.
    #[serde(default = "default_name")]
    pub query: String,
    /// Cookie that carries the token if neither header nor query does; `jwt` by default.
    #[serde(default = "default_name")]
    pub cookie: String,
    /// Whether the token is removed before the request goes to a node.
    #[serde(default)]
    pub hide_credentials: bool,
    /// Claim that holds the consumer's key; `key` by default.
    #[serde(default = "default_claim")]
    #[schemars(length(min = 1))]
    pub key_claim_name: String,
    /// Whether functions in Lua may read the payload, as `ctx.jwt_auth_payload`.
    #[serde(default)]
    pub store_in_ctx: bool,
    /// Time claims that a token must contain, and that must hold. Unset or empty: `exp` and `nbf`
    /// are optional, but must hold if present.
    pub claims_to_verify: Option<Vec<Claim>>,
    /// Consumer for requests without a valid token. Unset: such requests are refused.
    #[schemars(length(min = 1))]
    pub anonymous_consumer: Option<String>,
    /// Realm in `WWW-Authenticate`; `jwt` by default.
    #[serde(default = "default_realm")]
    #[schemars(length(min = 1, max = 128), regex(pattern = REALM_PATTERN))]
    pub realm: String,
}

/// Time claim of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Claim {
    Exp,
    Nbf,
}

impl Claim {
    const ALL: [Claim; 2] = [Self::Exp, Self::Nbf];

    fn name(self) -> &'static str {
        match self {
            Self::Exp => "exp",
            Self::Nbf => "nbf",
        }
    }

    /// Whether a claim with this value holds at that time.
    fn holds(self, seconds: f64, now_seconds: f64, leeway_seconds: f64) -> bool {
        match self {
            Self::Exp => seconds > now_seconds - leeway_seconds,
            Self::Nbf => seconds <= now_seconds + leeway_seconds,
        }
    }
}

defaults! {
    default_header: String = "authorization".into();
    default_name: String = "jwt".into();
    default_claim: String = "key".into();
    default_realm: String = "jwt".into();
    default_lifetime: i64 = 86_400;
}

/// Credential of a consumer for `jwt-auth`.
#[derive(Deserialize, JsonSchema)]
pub struct TokenKey {
    /// Key that names the consumer in tokens; unique among all consumers.
    #[schemars(length(min = 1))]
    pub key: String,
    /// Secret for HS algorithms; required for them.
    #[schemars(length(min = 1))]
    pub secret: Option<SecretText>,
    /// Public key as PEM, for all other algorithms; required for them.
    pub public_key: Option<String>,
    /// Algorithm of the consumer's tokens; HS256 by default. Tokens with another one are refused.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// Lifetime of tokens in seconds. Accepted for compatibility; the signer sets the lifetime in
    /// the token.
    #[serde(default = "default_lifetime")]
    #[schemars(range(min = 1))]
    pub exp: i64,
    /// Whether `secret` is base64; off by default.
    #[serde(default)]
    pub base64_secret: bool,
    /// Largest difference between the signer's and the gateway's clock, in seconds; 0 by default.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub lifetime_grace_period: i64,
    /// `None` while the key is unknown, or if it is invalid.
    #[serde(skip)]
    #[schemars(skip)]
    verifier: Option<Verifier>,
}

impl Identity for TokenKey {
    const KEY_FIELD: &'static str = "key";
    const ENCRYPTED: &'static [&'static str] = &["secret"];

    fn adjust_schema(schema: &mut Value) {
        let (shared, public): (Vec<_>, Vec<_>) = Algorithm::ALL
            .iter()
            .map(|algorithm| algorithm.name())
            .partition(|name| name.starts_with("HS"));
        schema["dependencies"] = json!({"algorithm": {"oneOf": [
            {"properties": {"algorithm": {"enum": shared, "default": "HS256"}}},
            {
                "properties": {"public_key": {"type": "string"}, "algorithm": {"enum": public}},
                "required": ["public_key"],
            },
        ]}});
    }

    fn prepare(&mut self) -> Result<(), ConfError> {
        self.verifier = if self.algorithm.is_shared_secret() {
            let secret = self.secret.as_ref();
            let secret =
                secret.ok_or("property \"secret\" is required when using HS based algorithms")?;
            self.verifier_of(secret)?
        } else {
            let pem = self.public_key.as_deref().filter(|pem| !pem.trim().is_empty());
            Verifier::from_public_key(self.algorithm, pem.ok_or("missing valid public key")?)
        };
        Ok(())
    }
}

impl TokenKey {
    fn verifier_of(&self, secret: &SecretText) -> Result<Option<Verifier>, ConfError> {
        // The value behind a reference is not known yet, so its form cannot be checked.
        if !self.base64_secret || is_reference(secret.as_str()) {
            return Ok(Verifier::from_secret(self.algorithm, secret.as_bytes()));
        }
        let secret = decode_base64(secret.as_bytes())
            .ok_or("base64_secret required but the secret is not in base64 format")?;
        Ok(Verifier::from_secret(self.algorithm, &secret))
    }

    /// Whether the token was signed by the consumer's key with the consumer's algorithm.
    fn signed(&self, token: &Token<'_>) -> bool {
        token.algorithm == self.algorithm.name()
            // No critical extension is supported (RFC 7515 §4.1.11).
            && !token.is_critical
            && self.verifier.as_ref().is_some_and(|verifier| verifier.verify(token))
    }
}

#[derive(Debug)]
pub struct JwtAuth {
    config: Config,
    gate: Gate,
}

impl Plugin for JwtAuth {
    const NAME: &'static str = "jwt-auth";
    const PRIORITY: i32 = 2510;
    const CATEGORY: Category = Category::Authentication;
    const PHASES: Phases = Phases::REWRITE;
    type Config = Config;

    fn adjust_schema(schema: &mut Value) {
        let claims = &mut schema["properties"]["claims_to_verify"];
        claims["items"] = json!({"type": "string", "enum": Claim::ALL.map(Claim::name)});
        claims["uniqueItems"] = json!(true);
    }

    fn consumer() -> Option<ConsumerSpec> {
        Some(ConsumerSpec::new::<TokenKey>())
    }

    fn compile(mut config: Config, _scope: &Scope<'_>) -> Result<Self, ConfError> {
        let gate = Gate::new("Bearer", &config.realm, config.anonymous_consumer.take());
        Ok(Self { config, gate })
    }

    fn rewrite<'a>(&'a self, cx: &'a mut RequestContext<'_>) -> Step<'a> {
        let found = self.token(cx);
        let step = match self.authenticate(cx, found.as_ref()) {
            Ok(()) => Step::Continue,
            Err(rejection) => self.gate.turn_away(cx, rejection),
        };
        // The token stays in a refused request, because another plugin may still need it.
        if let (Step::Continue, Some((_, place)), true) =
            (&step, found, self.config.hide_credentials)
        {
            self.hide(cx, place);
        }
        step
    }
}

/// Place in which a token was found.
#[derive(Debug, Clone, Copy)]
enum TokenLocation {
    Header,
    Query,
    Cookie,
}

impl JwtAuth {
    /// Admits the request as the token's consumer and subject.
    fn authenticate(
        &self,
        cx: &mut RequestContext<'_>,
        found: Option<&(Vec<u8>, TokenLocation)>,
    ) -> Result<(), Rejection> {
        let (text, place) = found.ok_or("Missing JWT token in request")?;
        let token = Token::parse(text).ok_or("JWT token invalid")?;
        let credential = self.verify(cx, &token)?;
        cx.authenticate(credential);
        note_claims(cx, Self::NAME, &token.payload);
        if self.config.store_in_ctx {
            cx.share(TokenPayload(token.payload.clone()));
        }
        match place {
            TokenLocation::Header if self.config.header.eq_ignore_ascii_case("authorization") => {
                cx.edits().identities.explain(Carrier::Authorization);
            }
            TokenLocation::Cookie => cx.edits().identities.explain(Carrier::Cookie),
            TokenLocation::Header | TokenLocation::Query => {}
        }
        Ok(())
    }

    fn verify<'r>(
        &self,
        cx: &RequestContext<'r>,
        token: &Token<'_>,
    ) -> Result<&'r Credential, Rejection> {
        let credential = match token.payload.get(&self.config.key_claim_name) {
            None | Some(Value::Bool(false)) => return Err("missing user key in JWT token".into()),
            Some(Value::String(key)) => cx.find_credential(Self::NAME, key.as_bytes()),
            Some(_) => None,
        };
        let credential = credential.ok_or("Invalid user key in JWT token")?;
        let key = credential.identity::<TokenKey>().ok_or("failed to verify jwt")?;
        let now_ms = cx.now().unix_ms;
        if !key.signed(token) {
            return Err("failed to verify jwt".into());
        }
        match self.failed_claim(&token.payload, key, now_ms) {
            None => Ok(credential),
            // A token of the future is one of a clock that is ahead, or ours is behind.
            Some(Claim::Nbf) if token.payload.get("nbf").is_some_and(Value::is_number) => {
                Err(Rejection::clock_differs("failed to verify jwt"))
            }
            Some(_) => Err("failed to verify jwt".into()),
        }
    }

    /// Returns the token and its place.
    fn token(&self, cx: &RequestContext<'_>) -> Option<(Vec<u8>, TokenLocation)> {
        let Config { header, query, cookie, .. } = &self.config;
        if let Some(value) = cx.header(header) {
            let token = credentials(&value, "Bearer").unwrap_or(&value);
            return Some((token.to_vec(), TokenLocation::Header));
        }
        if let Some(token) = cx.argument(query) {
            return Some((token.into_owned(), TokenLocation::Query));
        }
        cx.cookie(cookie).map(|token| (token, TokenLocation::Cookie))
    }

    fn hide(&self, cx: &mut RequestContext<'_>, place: TokenLocation) {
        match place {
            TokenLocation::Header => cx.remove_header(&self.config.header),
            TokenLocation::Query => hide_argument(cx, &self.config.query),
            TokenLocation::Cookie => hide_cookie(cx, &self.config.cookie),
        }
    }

    /// First of the time claims that does not hold.
    fn failed_claim(
        &self,
        payload: &Map<String, Value>,
        key: &TokenKey,
        now_ms: u64,
    ) -> Option<Claim> {
        // `f64` holds both exactly for any realistic time.
        let now_seconds = (now_ms / 1_000) as f64;
        let leeway_seconds = key.lifetime_grace_period as f64;
        let named = self.config.claims_to_verify.as_deref().filter(|claims| !claims.is_empty());
        let holds = |claim: &Claim| match payload.get(claim.name()) {
            Some(value) => value
                .as_f64()
                .is_some_and(|seconds| claim.holds(seconds, now_seconds, leeway_seconds)),
            None => named.is_none(),
        };
        named.unwrap_or(&Claim::ALL).iter().copied().find(|claim| !holds(claim))
    }
}
