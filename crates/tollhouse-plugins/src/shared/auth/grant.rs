//! Digests of the rights of an identity, for `Identity::grant`. A digest keeps secrets out of keys
//! and logs.

use aws_lc_rs::digest;
use serde_json::{Map, Value};
use tollhouse_plugin::{Identity, RequestContext};

/// Claims that differ between tokens of one user.
const OF_ONE_TOKEN: [&str; 10] =
    ["exp", "iat", "nbf", "jti", "nonce", "auth_time", "at_hash", "c_hash", "sid", "session_state"];

/// Returns the SHA-256 of the parts and their lengths.
pub(crate) fn digest_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish()
}

/// Records the identity of a token's claims. The grant covers all claims, except those that differ
/// between tokens of one user.
pub(crate) fn note_claims(
    cx: &mut RequestContext<'_>,
    by: &'static str,
    claims: &Map<String, Value>,
) {
    let mut lasting = claims.clone();
    lasting.retain(|name, _| !OF_ONE_TOKEN.contains(&name.as_str()));
    let text = Value::Object(lasting).to_string();
    let grant = digest_of([text.as_bytes()]);
    let name = claims.get("sub").and_then(Value::as_str).unwrap_or_default();
    cx.note_identity(Identity { by, name: name.as_bytes(), grant: grant.as_ref() });
}
