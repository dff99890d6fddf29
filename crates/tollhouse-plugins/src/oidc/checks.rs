//! Validation of tokens: signature, issuer, audience and time. The time is an argument.

use serde_json::{Map, Value};

use super::error::TokenError;
use super::now::Now;
use super::provider::Provider;
use crate::shared::auth::jwt::{Algorithm, Signature, Token, Verifier};
use crate::shared::auth::secret::{SecretText, are_equal};

/// Reason of the refusal of a token whose `nbf` or `iat` is in the future.
pub(crate) const NOT_VALID_YET: &str = "the token is not valid yet";

/// Maximum length of a token in bytes; a request's head cannot be longer.
pub(crate) const TOKEN_BYTES_MAX: usize = 64 << 10;

pub(crate) type Claims = Map<String, Value>;

/// Keys, algorithms and issuers by which tokens are verified.
#[derive(Debug)]
pub(crate) struct Rules {
    /// Configured public key. `None`: the provider's published keys.
    pub(crate) key: Option<PublicKey>,
    /// Allowed algorithms of bearer tokens; empty allows every asymmetric one. ID tokens are
    /// exempt, because the provider has chosen their algorithm.
    pub(crate) algorithms: Vec<Algorithm>,
    /// Allowed issuers. `None`: only the provider.
    pub(crate) issuers: Option<Vec<String>>,
    /// Largest difference between clocks, in seconds.
    pub(crate) leeway_s: u64,
    /// Largest age of the provider's keys.
    pub(crate) keys_age_max_ms: u64,
    /// Whether ID tokens directly from the provider may be unsigned.
    pub(crate) accepts_unsigned: bool,
}

/// Public key, prepared for each algorithm that it fits.
pub(crate) struct PublicKey(Vec<(Algorithm, Verifier)>);

impl std::fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_list().entries(self.0.iter().map(|(algorithm, _)| algorithm)).finish()
    }
}

impl PublicKey {
    /// Returns a placeholder for a key that is not known yet; it verifies nothing.
    pub(crate) fn unknown() -> Self {
        Self(Vec::new())
    }

    /// Parses PEM; `None` if it is not a public key.
    pub(crate) fn read(pem: &str) -> Option<Self> {
        // HMAC algorithms never fit, because a public key must not serve as a shared secret.
        let ready = Algorithm::ALL.into_iter().filter_map(|algorithm| {
            Verifier::from_public_key(algorithm, pem).map(|verifier| (algorithm, verifier))
        });
        let ready: Vec<_> = ready.collect();
        (!ready.is_empty()).then_some(Self(ready))
    }

    fn verify(&self, token: &Token<'_>, algorithm: Algorithm) -> Signature {
        match self.0.iter().find(|(own, _)| *own == algorithm) {
            Some((_, verifier)) if verifier.verify(token) => Signature::Good,
            Some(_) => Signature::Bad,
            None => Signature::UnknownKey,
        }
    }
}

/// Properties that an ID token must have.
#[derive(Debug)]
pub(crate) struct IdTokenChecks<'e> {
    pub(crate) client_id: &'e str,
    pub(crate) client_secret: Option<&'e SecretText>,
    /// Nonce of the login, and whether the token must contain it.
    pub(crate) nonce: Option<(&'e str, bool)>,
    /// Subject of the session's previous ID token.
    pub(crate) subject: Option<&'e str>,
}

impl Rules {
    /// Validates a bearer token and returns its claims.
    ///
    /// # Errors
    /// If the token is invalid, or the provider does not answer.
    pub(crate) async fn check_bearer(
        &self,
        text: &str,
        provider: &Provider,
        now: Now,
    ) -> Result<Claims, TokenError> {
        let refused = |reason| TokenError::Refused(reason);
        let token = read(text)?;
        let algorithm = Algorithm::named(&token.algorithm).filter(|it| !it.is_shared_secret());
        let algorithm =
            algorithm.ok_or(refused("the token is signed by an algorithm that is not accepted"))?;
        self.check_allowed(algorithm)?;
        self.check_signature(&token, algorithm, provider, now).await?;
        let claims = &token.payload;
        let issuer = text_of(claims, "iss").ok_or(refused("the token names no issuer"))?;
        let is_known = match &self.issuers {
            Some(issuers) => issuers.iter().any(|other| other == issuer),
            None => provider.document(now.ms).await?.issuer == issuer,
        };
        if !is_known {
            return Err(refused("the token is from another issuer"));
        }
        match claims.get("exp").map(Value::as_f64) {
            None => {}
            Some(Some(end)) if end > seconds(now.unix_s) => {}
            Some(_) => return Err(refused("the token has expired")),
        }
        self.check_beginning(claims, "nbf", now.unix_s)?;
        Ok(token.payload)
    }

    /// Validates an ID token and returns its claims (OpenID Connect Core §3.1.3.7).
    ///
    /// # Errors
    /// If the token is invalid, or the provider does not answer.
    pub(crate) async fn check_id_token(
        &self,
        text: &str,
        provider: &Provider,
        expected: &IdTokenChecks<'_>,
        now: Now,
    ) -> Result<Claims, TokenError> {
        let refused = |reason| TokenError::Refused(reason);
        let token = read(text)?;
        match Algorithm::named(&token.algorithm) {
            // The token comes directly from the provider, and the operator accepts that.
            None if token.algorithm == "none" && self.accepts_unsigned => {}
            None => {
                return Err(refused("the ID token is signed by an algorithm that is not accepted"));
            }
            Some(algorithm) if algorithm.is_shared_secret() => {
                let secret = expected.client_secret.filter(|secret| !secret.as_bytes().is_empty());
                let verifier =
                    secret.and_then(|it| Verifier::from_secret(algorithm, it.as_bytes()));
                if !verifier.is_some_and(|verifier| verifier.verify(&token)) {
                    return Err(refused("the ID token's signature is not good"));
                }
            }
            Some(algorithm) => self.check_signature(&token, algorithm, provider, now).await?,
        }
        let claims = &token.payload;
        let document = provider.document(now.ms).await?;
        // A provider without a discovery document has no issuer name. The token came from its own
        // endpoint.
        if !document.issuer.is_empty() && text_of(claims, "iss") != Some(&document.issuer) {
            return Err(refused("the ID token is from another issuer"));
        }
        let subject = text_of(claims, "sub").filter(|subject| !subject.is_empty());
        let subject = subject.ok_or(refused("the ID token has no subject"))?;
        if expected.subject.is_some_and(|before| before != subject) {
            return Err(refused("the ID token has another subject than the previous one"));
        }
        if !is_for(claims.get("aud"), expected.client_id) {
            return Err(refused("the ID token is for another client"));
        }
        if text_of(claims, "azp").is_some_and(|party| party != expected.client_id) {
            return Err(refused("the ID token was issued to another client"));
        }
        if let Some((nonce, is_required)) = expected.nonce {
            let claimed_nonce = text_of(claims, "nonce");
            let is_same = claimed_nonce.map(|it| are_equal(it.as_bytes(), nonce.as_bytes()));
            if !is_same.unwrap_or(!is_required) {
                return Err(refused("the ID token is the answer to another request"));
            }
        }
        let end = claims
            .get("exp")
            .and_then(Value::as_f64)
            .ok_or(refused("the ID token has no expiry"))?;
        if end + seconds(self.leeway_s) <= seconds(now.unix_s) {
            return Err(refused("the ID token has expired"));
        }
        self.check_beginning(claims, "nbf", now.unix_s)?;
        self.check_beginning(claims, "iat", now.unix_s)?;
        Ok(token.payload)
    }

    async fn check_signature(
        &self,
        token: &Token<'_>,
        algorithm: Algorithm,
        provider: &Provider,
        now: Now,
    ) -> Result<(), TokenError> {
        let signature = match &self.key {
            Some(key) => key.verify(token, algorithm),
            None => provider.verify(token, algorithm, now.ms, self.keys_age_max_ms).await?,
        };
        match signature {
            Signature::Good => Ok(()),
            Signature::Bad => Err(TokenError::Refused("the token's signature is not good")),
            Signature::UnknownKey => {
                Err(TokenError::Refused("the token is signed by an unknown key"))
            }
        }
    }

    fn check_allowed(&self, algorithm: Algorithm) -> Result<(), TokenError> {
        let is_allowed = self.algorithms.is_empty() || self.algorithms.contains(&algorithm);
        let reason = "the token is signed by an algorithm that is not accepted";
        is_allowed.then_some(()).ok_or(TokenError::Refused(reason))
    }

    fn check_beginning(&self, claims: &Claims, name: &str, now_s: u64) -> Result<(), TokenError> {
        match claims.get(name).map(Value::as_f64) {
            None => Ok(()),
            Some(Some(begin)) if begin <= seconds(now_s.saturating_add(self.leeway_s)) => Ok(()),
            Some(_) => Err(TokenError::Refused(NOT_VALID_YET)),
        }
    }
}

fn read(text: &str) -> Result<Token<'_>, TokenError> {
    let token = Some(text).filter(|text| text.len() <= TOKEN_BYTES_MAX);
    let token = token.and_then(|text| Token::parse(text.as_bytes()));
    let token = token.ok_or(TokenError::Refused("the token is not a JSON Web Token"))?;
    // No critical extension is supported (RFC 7515 §4.1.11).
    if token.is_critical {
        return Err(TokenError::Refused("the token asks for extensions that are not known"));
    }
    Ok(token)
}

/// Whether an audience claim, a text or a list, contains this client.
pub(crate) fn is_for(audience: Option<&Value>, client_id: &str) -> bool {
    match audience {
        Some(Value::String(audience)) => audience == client_id,
        Some(Value::Array(all)) => all.iter().any(|audience| audience == client_id),
        _ => false,
    }
}

/// Whether all required scopes were granted. `granted` is a space-separated text or a list.
pub(crate) fn has_scopes(granted: Option<&Value>, required: &[String]) -> bool {
    let words: Vec<&str> = match granted {
        Some(Value::String(text)) => text.split_ascii_whitespace().collect(),
        Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    required.iter().all(|scope| words.contains(&scope.as_str()))
}

pub(crate) fn text_of<'c>(claims: &'c Claims, name: &str) -> Option<&'c str> {
    claims.get(name).and_then(Value::as_str)
}

#[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^52")]
fn seconds(seconds: u64) -> f64 {
    seconds as f64
}
