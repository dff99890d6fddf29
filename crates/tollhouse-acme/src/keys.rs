//! Keys in the store. Except for the certificates themselves, they are outside the prefix of
//! objects, which other gateways read.

use aws_lc_rs::digest;

/// Key of the node that orders certificates; put under its lease.
pub(crate) const HOLDER: &str = "tollhouse/acme/holder";

/// Prefix of pending challenges; the token follows.
pub(crate) const CHALLENGES: &str = "tollhouse/acme/challenges/";

/// Prefix of the store keys of accounts.
pub(crate) const ACCOUNTS: &str = "tollhouse/acme/accounts/";

/// Prefix of orders; the certificate's id follows.
pub(crate) const ORDERS: &str = "tollhouse/acme/orders/";

/// Prefix of the records about certificates; the certificate's id follows.
pub(crate) const STATES: &str = "tollhouse/acme/certificates/";

/// Maximum length of an object id in characters.
const ID_CHARS_MAX: usize = 64;

/// Prefix of the ids of ACME certificates.
const ID_PREFIX: &str = "acme-";

/// Characters of a name kept in the id if the whole name is too long.
const NAME_CHARS_KEPT: usize = 40;

/// Id of the `ssls` object for a name: `acme-` and the name. A long name is truncated and followed
/// by a fingerprint.
pub fn certificate_id(host: &str) -> String {
    if ID_PREFIX.len() + host.len() <= ID_CHARS_MAX {
        return format!("{ID_PREFIX}{host}");
    }
    let kept: String = host.chars().take(NAME_CHARS_KEPT).collect();
    format!("{ID_PREFIX}{kept}-{}", fingerprint(host))
}

/// Prefix of the keys of all ACME certificates.
pub fn objects_folder(prefix: &str) -> String {
    object(prefix, ID_PREFIX)
}

/// Returns the store key of the account with the authority whose directory is `directory`.
pub(crate) fn account(directory: &str) -> String {
    format!("{ACCOUNTS}{}", fingerprint(directory))
}

/// Key of the time until which an authority must not be asked.
pub(crate) fn hold(directory: &str) -> String {
    format!("tollhouse/acme/holds/{}", fingerprint(directory))
}

/// Key of a certificate in service.
pub(crate) fn object(prefix: &str, id: &str) -> String {
    format!("{prefix}/ssls/{id}")
}

/// Sixteen hexadecimal digits that identify a text.
fn fingerprint(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_fit_whatever_the_name() {
        assert_eq!(certificate_id("www.example.org"), "acme-www.example.org");
        let long = |end: &str| certificate_id(&format!("{}.{end}", "a".repeat(60)));
        assert!(long("org").len() <= ID_CHARS_MAX, "{}", long("org"));
        assert_ne!(long("org"), long("net"));
    }
}
