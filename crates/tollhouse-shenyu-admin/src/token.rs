//! Login tokens: JSON Web Tokens (RFC 7519) signed with HMAC-SHA256, with ShenYu's claims.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

/// Maximum length of an accepted token in bytes. Its only variable part is a user name.
const TOKEN_BYTES_MAX: usize = 4 << 10;

/// Claims of a session token (JWT).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Claims {
    pub(crate) user_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) client_id: Option<String>,
    /// Expiry in seconds since 1970.
    pub(crate) exp: u64,
    /// Fingerprint of the user's password hash. A changed password invalidates the token.
    pub(crate) password: String,
}

/// Key that signs and verifies tokens.
#[derive(Clone)]
pub(crate) struct TokenKey(hmac::Key);

impl TokenKey {
    pub(crate) fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Creates a signed token with these claims.
    pub(crate) fn sign(&self, claims: &Claims) -> serde_json::Result<String> {
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let body = URL_SAFE_NO_PAD.encode(serde_json::to_vec(claims)?);
        let signed = format!("{head}.{body}");
        let tag = hmac::sign(&self.0, signed.as_bytes());
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)))
    }

    /// Verifies a token and returns its claims, or `None` if it is invalid or expired. The `alg` in
    /// its header is ignored, because only one algorithm is accepted.
    pub(crate) fn verify(&self, token: &str, now_s: u64) -> Option<Claims> {
        if token.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, tag) = token.rsplit_once('.')?;
        let tag = URL_SAFE_NO_PAD.decode(tag).ok()?;
        hmac::verify(&self.0, signed.as_bytes(), &tag).ok()?;
        let body = URL_SAFE_NO_PAD.decode(signed.split_once('.')?.1).ok()?;
        let claims: Claims = serde_json::from_slice(&body).ok()?;
        (claims.exp > now_s).then_some(claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tokens_of_this_key_that_have_not_expired_count() {
        let key = TokenKey::new(b"secret");
        let claims =
            Claims { user_name: "admin".into(), client_id: None, exp: 100, password: "x".into() };
        let token = key.sign(&claims).unwrap();
        assert_eq!(key.verify(&token, 99), Some(claims));
        assert_eq!(key.verify(&token, 100), None);
        assert_eq!(TokenKey::new(b"other").verify(&token, 99), None);
        let unsigned = format!("{}.", token.rsplit_once('.').unwrap().0);
        let none = format!("{}..", URL_SAFE_NO_PAD.encode(r#"{"alg":"none"}"#));
        for broken in ["", ".", "..", "a.b.c", &token[1..], &unsigned, &none, &"a".repeat(5000)] {
            assert_eq!(key.verify(broken, 0), None, "{broken}");
        }
    }
}
