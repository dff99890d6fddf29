//! Hashes of passwords, by Argon2id, in the PHC string format.

use std::sync::LazyLock;

use argon2::{Algorithm, Argon2, Params, Version};
use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use tollhouse_registry::identity::PasswordHash;

use crate::code::Code;
use crate::failure::Failure;

/// Memory of one computation: the minimum that OWASP recommends for Argon2id.
pub(crate) const MEMORY_BYTES: usize = 19 * 1024 * 1024;
/// Number of passes over the memory, recommended with [`MEMORY_BYTES`].
const PASSES: u32 = 2;
const SALT_BYTES: usize = 16;
const HASH_BYTES: usize = 32;
/// Minimum length of a password in bytes, as in Polaris.
const PASSWORD_BYTES_MIN: usize = 6;
/// Maximum length of a password in bytes. Polaris allows 17, less than a good pass phrase.
const PASSWORD_BYTES_MAX: usize = 128;

/// Hash to which the passwords of unknown users are compared, so that the time of a login does not
/// show whether the user exists.
static NO_USER: LazyLock<PasswordHash> = LazyLock::new(|| hash("", &[0; SALT_BYTES]));

/// Returns the hash of a new password, with a random salt. Takes some ten milliseconds.
pub(crate) fn new_hash(password: &str) -> PasswordHash {
    let mut salt = [0; SALT_BYTES];
    aws_lc_rs::rand::fill(&mut salt).expect("the system has random bytes");
    hash(password, &salt)
}

/// Whether a password has a hash; never for a user that does not exist or has no password. Takes
/// some ten milliseconds.
pub fn is_password(password: &str, of: Option<&PasswordHash>) -> bool {
    let of = of.filter(|of| !of.0.is_empty());
    let stored = of.unwrap_or(&NO_USER);
    let Some(salt) = salt_of(stored) else { return false };
    let own = hash(password, &salt);
    let is_equal =
        aws_lc_rs::constant_time::verify_slices_are_equal(own.0.as_bytes(), stored.0.as_bytes());
    is_equal.is_ok() && of.is_some()
}

/// Checks the length of a new password.
pub(crate) fn check(password: &str) -> Result<(), Failure> {
    if (PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX).contains(&password.len()) {
        return Ok(());
    }
    let text = format!("password len need {PASSWORD_BYTES_MIN} ~ {PASSWORD_BYTES_MAX}");
    Err(Failure::with(Code::InvalidUserPassword, text))
}

fn hash(password: &str, salt: &[u8]) -> PasswordHash {
    let memory_kib = (MEMORY_BYTES / 1024) as u32;
    let params = Params::new(memory_kib, PASSES, 1, Some(HASH_BYTES));
    let params = params.expect("the parameters are within Argon2's limits");
    let mut out = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params);
    let done = argon2.hash_password_into(password.as_bytes(), salt, &mut out);
    done.expect("passwords and salts are within Argon2's limits");
    let [salt, out] = [salt, &out].map(|bytes| STANDARD_NO_PAD.encode(bytes));
    let text = format!("$argon2id$v=19$m={memory_kib},t={PASSES},p=1${salt}${out}");
    PasswordHash(text.into())
}

/// Returns the salt of a hash that [`hash`] made.
fn salt_of(stored: &PasswordHash) -> Option<Vec<u8>> {
    let (rest, _) = stored.0.rsplit_once('$')?;
    let (_, salt) = rest.rsplit_once('$')?;
    STANDARD_NO_PAD.decode(salt).ok().filter(|salt| salt.len() == SALT_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_known_by_its_hash_only() {
        let (first, second) = (new_hash("correct horse"), new_hash("correct horse"));
        assert_ne!(first, second, "each has its own salt");
        assert!(first.0.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{first:?}");
        assert!(is_password("correct horse", Some(&first)));
        assert!(!is_password("wrong horse", Some(&first)));
        for stored in [None, Some(&PasswordHash::default()), Some(&PasswordHash("$x$".into()))] {
            for password in ["", "correct horse"] {
                assert!(!is_password(password, stored), "{password:?} {stored:?}");
            }
        }
    }

    #[test]
    fn passwords_have_a_length() {
        for (length, is_good) in [(0, false), (5, false), (6, true), (128, true), (129, false)] {
            assert_eq!(check(&"x".repeat(length)).is_ok(), is_good, "{length}");
        }
    }
}
