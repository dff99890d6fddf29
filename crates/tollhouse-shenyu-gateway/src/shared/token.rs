//! JSON Web Tokens (RFC 7519) of `jwt` and `casdoor`.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::Value;
use tollhouse_plugin::{Identity, RequestContext};

/// Longest accepted token in bytes.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// Token (RFC 7519) in compact form (RFC 7515), split but not verified.
pub(crate) struct Token<'a> {
    /// Signature algorithm that the token's header names.
    pub(crate) algorithm: String,
    /// Signed part: header and payload.
    pub(crate) signed: &'a str,
    pub(crate) signature: Vec<u8>,
    payload: &'a str,
}

impl<'a> Token<'a> {
    pub(crate) fn read(text: &'a str) -> Option<Self> {
        if text.len() > TOKEN_BYTES_MAX {
            return None;
        }
        let (signed, signature) = text.rsplit_once('.')?;
        let (head, payload) = signed.split_once('.')?;
        let head: Head = serde_json::from_slice(&decode(head)?).ok()?;
        Some(Self { algorithm: head.alg, signed, signature: decode(signature)?, payload })
    }

    /// Returns the claims, which must not be trusted before the signature is verified.
    pub(crate) fn claims(&self) -> Option<Value> {
        let claims: Value = serde_json::from_slice(&decode(self.payload)?).ok()?;
        claims.is_object().then_some(claims)
    }
}

#[derive(Deserialize)]
struct Head {
    alg: String,
}

fn decode(part: &str) -> Option<Vec<u8>> {
    URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()
}

/// Returns the token of an `Authorization` header, with or without the prefix `Bearer `.
pub(crate) fn bearer(authorization: &str) -> &str {
    let text = authorization.trim();
    let scheme = text.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("bearer "));
    scheme.map_or(text, |_| text[7..].trim())
}

/// Whether claims are valid at `now_s`, in seconds since 1970, by `exp` and `nbf`. A time that is
/// not a number counts as invalid.
pub(crate) fn lasts(claims: &Value, now_s: u64) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "seconds are far below 2^52")]
    let now = now_s as f64;
    let holds = |name: &str, is_in_time: fn(f64, f64) -> bool| match claims.get(name) {
        None => true,
        Some(time) => time.as_f64().is_some_and(|time| is_in_time(time, now)),
    };
    holds("exp", |end, now| end > now) && holds("nbf", |begin, now| begin <= now)
}

/// Records the identity of a token: its subject, and all claims as the grant, because any claim may
/// carry permissions.
pub(crate) fn note_claims(cx: &mut RequestContext<'_>, by: &'static str, claims: &Value) {
    let name = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    let grant = claims.to_string();
    cx.note_identity(Identity { by, name: name.as_bytes(), grant: grant.as_bytes() });
}
