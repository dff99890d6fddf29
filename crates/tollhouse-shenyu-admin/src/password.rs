//! Storage of passwords: PBKDF2-HMAC-SHA256 (RFC 8018), with a random salt per password.

use std::num::NonZeroU32;

use aws_lc_rs::{pbkdf2, rand};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Number of iterations for new passwords. They take tens of milliseconds of a core, which an
/// attacker pays for each guess.
const ROUNDS: NonZeroU32 = NonZeroU32::new(120_000).expect("it is not zero");

/// Maximum number of iterations accepted in a stored hash.
const ROUNDS_MAX: u32 = 1_000_000;

/// Hash for users that do not exist. No password matches it, and the check takes as long as any
/// other.
pub(crate) const NOBODYS: &str =
    "pbkdf2$120000$AAAAAAAAAAAAAAAAAAAAAA==$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";

const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;

/// Hashes a password into its stored form `pbkdf2$<rounds>$<salt>$<key>`. Returns `None` if the
/// system's random number generator is unavailable.
pub(crate) fn keep(password: &str) -> Option<String> {
    let mut salt = [0; SALT_BYTES];
    rand::fill(&mut salt).ok()?;
    let mut key = [0; KEY_BYTES];
    pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, ROUNDS, &salt, password.as_bytes(), &mut key);
    Some(format!("pbkdf2${ROUNDS}${}${}", STANDARD.encode(salt), STANDARD.encode(key)))
}

/// Whether a password matches a stored hash; takes as long as [`keep`].
pub(crate) fn is_right(password: &str, kept: &str) -> bool {
    let mut parts = kept.split('$');
    let (Some("pbkdf2"), Some(rounds), Some(salt), Some(key), None) =
        (parts.next(), parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let rounds =
        rounds.parse().ok().filter(|rounds| *rounds <= ROUNDS_MAX).and_then(NonZeroU32::new);
    let (Some(rounds), Ok(salt), Ok(key)) = (rounds, STANDARD.decode(salt), STANDARD.decode(key))
    else {
        return false;
    };
    pbkdf2::verify(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &key).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_password_that_is_kept_is_right() {
        let kept = keep("123456").unwrap();
        assert_ne!(kept, keep("123456").unwrap());
        assert!(is_right("123456", &kept));
        assert!(!is_right("1234567", &kept));
        assert!(NOBODYS.starts_with(&format!("pbkdf2${ROUNDS}$")));
        assert!(!is_right("", NOBODYS));
        for broken in ["", "123456", "pbkdf2$0$$", "pbkdf2$4000000000$AA==$AA==", "pbkdf2$1$%$%"] {
            assert!(!is_right("123456", broken), "{broken}");
        }
    }
}
