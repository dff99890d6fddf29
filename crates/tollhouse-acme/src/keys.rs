//! Where things lie in the store. All but the certificates themselves lie outside of the objects' prefix,
//! which other gateways read.

use aws_lc_rs::digest;

/// Who orders; under its lease.
pub(crate) const HOLDER: &str = "tollhouse/acme/holder";

/// What the keys of pending challenges begin with; the token follows.
pub(crate) const CHALLENGES: &str = "tollhouse/acme/challenges/";

/// What the keys of accounts begin with.
pub(crate) const ACCOUNTS: &str = "tollhouse/acme/accounts/";

/// What the keys of orders begin with; the certificate's id follows.
pub(crate) const ORDERS: &str = "tollhouse/acme/orders/";

/// What the keys begin with of how certificates stand; the certificate's id follows.
pub(crate) const STATES: &str = "tollhouse/acme/certificates/";

/// Longest id of an object.
const ID_CHARS_MAX: usize = 64;

/// What ids of our certificates begin with.
const ID_PREFIX: &str = "acme-";

/// Letters of a name that are kept where the whole of it is too long for an id.
const NAME_CHARS_KEPT: usize = 40;

/// The id of the `ssls` object for a name: `acme-` and the name; of a long name its beginning and a
/// fingerprint.
pub fn certificate_id(host: &str) -> String {
    if ID_PREFIX.len() + host.len() <= ID_CHARS_MAX {
        return format!("{ID_PREFIX}{host}");
    }
    let kept: String = host.chars().take(NAME_CHARS_KEPT).collect();
    format!("{ID_PREFIX}{kept}-{}", fingerprint(host))
}

/// What the keys of all certificates that are got and renewed here begin with.
pub fn objects_folder(prefix: &str) -> String {
    object(prefix, ID_PREFIX)
}

/// Where the account with an authority lies.
pub(crate) fn account(directory: &str) -> String {
    format!("{ACCOUNTS}{}", fingerprint(directory))
}

/// Where it lies until when an authority asks not to be asked.
pub(crate) fn hold(directory: &str) -> String {
    format!("tollhouse/acme/holds/{}", fingerprint(directory))
}

/// Where a certificate lies that is served.
pub(crate) fn object(prefix: &str, id: &str) -> String {
    format!("{prefix}/ssls/{id}")
}

/// Sixteen hexadecimal digits that tell one text from another.
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
