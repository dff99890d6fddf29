//! Names of the store's entries for ACME. Except for the certificates themselves, they are outside
//! the prefix of objects, because gateways treat all entries with that prefix as objects.

use aws_lc_rs::digest;

/// Store key of the entry that names the node which orders certificates. The entry is bound to the
/// lease of this node.
pub(crate) const HOLDER: &str = "tollhouse/acme/holder";

/// Prefix of the store keys of pending challenges; the challenge's token follows.
pub(crate) const CHALLENGES: &str = "tollhouse/acme/challenges/";

/// Prefix of the store keys of accounts.
pub(crate) const ACCOUNTS: &str = "tollhouse/acme/accounts/";

/// Prefix of the store keys of orders; the certificate's id follows.
pub(crate) const ORDERS: &str = "tollhouse/acme/orders/";

/// Prefix of the store keys of records about certificates; the certificate's id follows.
pub(crate) const STATES: &str = "tollhouse/acme/certificates/";

/// Maximum length of an object id in characters.
const ID_CHARS_MAX: usize = 64;

/// Prefix of the ids of ACME certificates.
const ID_PREFIX: &str = "acme-";

/// Number of characters of a host name that its id contains if the whole name is too long.
const NAME_CHARS_KEPT: usize = 40;

/// Returns the id of the `ssls` object for a host name: `acme-` and the name. A long name is
/// truncated and followed by its fingerprint.
pub fn certificate_id(host: &str) -> String {
    if ID_PREFIX.len() + host.len() <= ID_CHARS_MAX {
        return format!("{ID_PREFIX}{host}");
    }
    let kept: String = host.chars().take(NAME_CHARS_KEPT).collect();
    format!("{ID_PREFIX}{kept}-{}", fingerprint(host))
}

/// Returns the prefix of the store keys of all ACME certificates.
pub fn objects_folder(prefix: &str) -> String {
    object(prefix, ID_PREFIX)
}

/// Returns the store key of the account with the authority whose directory is `directory`.
pub(crate) fn account(directory: &str) -> String {
    format!("{ACCOUNTS}{}", fingerprint(directory))
}

/// Returns the store key of the period in which the authority with this directory must not be
/// asked.
pub(crate) fn hold(directory: &str) -> String {
    format!("tollhouse/acme/holds/{}", fingerprint(directory))
}

/// Returns the store key of the `ssls` object with this id.
pub(crate) fn object(prefix: &str, id: &str) -> String {
    format!("{prefix}/ssls/{id}")
}

/// Returns sixteen hexadecimal digits of the digest of a text, which identify it.
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
