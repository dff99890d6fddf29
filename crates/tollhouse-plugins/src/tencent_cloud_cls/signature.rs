//! Signature of requests to Tencent Cloud's log service, by SHA-1 as the service prescribes.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::hmac;

use crate::shared::auth::secret::SecretText;

/// Lifetime of a signature, in seconds.
const LIFETIME_S: u64 = 60;

/// Returns the value of `Authorization` for a POST to a path, without signed headers and arguments.
pub(super) fn sign(id: &str, key: &SecretText, path: &str, now_s: u64) -> String {
    let times = format!("{now_s};{}", now_s + LIFETIME_S);
    let request = format!("post\n{path}\n\n\n");
    let request = hex(digest(&SHA1_FOR_LEGACY_USE_ONLY, request.as_bytes()).as_ref());
    let key = keyed(key.as_bytes(), &times);
    let signature = keyed(key.as_bytes(), &format!("sha1\n{times}\n{request}\n"));
    format!(
        "q-sign-algorithm=sha1&q-ak={id}&q-sign-time={times}&q-key-time={times}&q-header-list=\
         &q-url-param-list=&q-signature={signature}"
    )
}

fn keyed(key: &[u8], text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
    hex(hmac::sign(&key, text.as_bytes()).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
