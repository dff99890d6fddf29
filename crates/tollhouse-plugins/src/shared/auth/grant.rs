//! Digests of what an identity may see, as `Identity::grant` has them: no secret is in a key or a log.

use aws_lc_rs::digest;
use serde_json::{Map, Value};
use tollhouse_plugin::{Identity, RequestContext};

/// Claims that differ from token to token of the same user.
const OF_ONE_TOKEN: [&str; 10] =
    ["exp", "iat", "nbf", "jti", "nonce", "auth_time", "at_hash", "c_hash", "sid", "session_state"];

/// A digest of parts, with their lengths.
pub(crate) fn digest_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> digest::Digest {
    let mut context = digest::Context::new(&digest::SHA256);
    for part in parts {
        context.update(&(part.len() as u64).to_le_bytes());
        context.update(part);
    }
    context.finish()
}

/// Notes whose claims have let the request in; the grant is all that they say, but for the token itself.
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
