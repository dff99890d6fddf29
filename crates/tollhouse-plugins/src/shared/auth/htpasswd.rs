//! Hashes of passwords as `htpasswd` writes them: bcrypt, Apache's MD5 and SHA-1.

use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest;
use md5::{Digest, Md5};
use tokio::sync::Semaphore;
use tollhouse_plugin::ConfError;

use super::base64::decode_base64;
use super::grant::digest_of;
use super::secret::are_equal;

const APR1: &str = "$apr1$";
const SHA1: &str = "{SHA}";
const BCRYPT: [&str; 4] = ["$2y$", "$2b$", "$2a$", "$2x$"];

/// Largest cost of a bcrypt hash. Each step doubles the time; 14 takes about a second.
const BCRYPT_COST_MAX: u32 = 14;

/// Longest salt of Apache's MD5 that is used, in characters.
const SALT_CHARS_MAX: usize = 8;

/// Number of repetitions of Apache's MD5.
const APR1_ROUNDS: usize = 1_000;

/// Length of a SHA-1 digest, in bytes.
const SHA1_BYTES: usize = 20;

/// Longest password that is compared, in bytes; Apache takes no longer one either. The time of a
/// comparison grows with it.
const PASSWORD_BYTES_MAX: usize = 255;

/// Limit of slow comparisons at a time, in the whole process.
const RUNNING_MAX: usize = 2;

/// Limit of comparisons of one hash that run or wait at a time. Without it, wrong passwords for one
/// name would delay all other names.
const COMPARISONS_MAX: usize = 4;

/// Hash of a password, which does not appear in logs.
pub(crate) struct PasswordHash {
    kind: Kind,
    /// Free places for comparisons that run or wait.
    places: Arc<Semaphore>,
    /// Turn of the comparison that runs.
    turn: Semaphore,
    /// Digest of the password that was right last time, so that a client's next requests cost no
    /// further bcrypt.
    last_right: Mutex<Option<digest::Digest>>,
}

enum Kind {
    Bcrypt(String),
    Apr1 { salt: String, hash: String },
    Sha1(Vec<u8>),
}

/// Time that a comparison takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effort {
    /// Microseconds: on the core.
    Short,
    /// Milliseconds to a second: on another thread.
    Long,
}

impl std::fmt::Debug for PasswordHash {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("***")
    }
}

impl PasswordHash {
    /// Parses a hash.
    ///
    /// # Errors
    /// If its form is unknown. The text does not contain the hash.
    pub(crate) fn parse(text: &str) -> Result<Self, ConfError> {
        let kind = if let Some(rest) = text.strip_prefix(APR1) {
            let (salt, hash) = rest.split_once('$').ok_or("invalid $apr1$ hash")?;
            let salt = salt.chars().take(SALT_CHARS_MAX).collect();
            Kind::Apr1 { salt, hash: hash.to_owned() }
        } else if let Some(rest) = text.strip_prefix(SHA1) {
            let digest = decode_base64(rest.as_bytes()).filter(|it| it.len() == SHA1_BYTES);
            Kind::Sha1(digest.ok_or("invalid {SHA} hash")?)
        } else if BCRYPT.iter().any(|prefix| text.starts_with(prefix)) {
            let parts: bcrypt::HashParts = text.parse().map_err(|_| "invalid bcrypt hash")?;
            if parts.get_cost() > BCRYPT_COST_MAX {
                return Err(
                    format!("the cost of a bcrypt hash must be at most {BCRYPT_COST_MAX}").into()
                );
            }
            Kind::Bcrypt(text.to_owned())
        } else {
            return Err("unknown password hash: expected bcrypt ($2y$), $apr1$ or {SHA}".into());
        };
        Ok(Self {
            kind,
            places: Arc::new(Semaphore::new(COMPARISONS_MAX)),
            turn: Semaphore::new(1),
            last_right: Mutex::new(None),
        })
    }

    /// Returns the effort of the next comparison with `password`.
    pub(crate) fn effort(&self, password: &[u8]) -> Effort {
        match self.kind {
            _ if password.len() > PASSWORD_BYTES_MAX => Effort::Short,
            Kind::Bcrypt(_) if !self.was_right(&digest_of([password])) => Effort::Long,
            _ => Effort::Short,
        }
    }

    /// Compares on another thread, one comparison of this hash at a time. `None` if too many wait.
    pub(crate) async fn is_elsewhere(self: Arc<Self>, password: Vec<u8>) -> Option<bool> {
        // At most a few run at once, so that wrong passwords cannot take all threads.
        static RUNNING: Semaphore = Semaphore::const_new(RUNNING_MAX);
        let _place = Arc::clone(&self.places).try_acquire_owned().ok()?;
        let hash = Arc::clone(&self);
        let _turn = self.turn.acquire().await.ok()?;
        let _running = RUNNING.acquire().await.ok()?;
        Some(tokio::task::spawn_blocking(move || hash.is(&password)).await.unwrap_or(false))
    }

    /// Whether `password` has this hash.
    pub(crate) fn is(&self, password: &[u8]) -> bool {
        if password.len() > PASSWORD_BYTES_MAX {
            return false;
        }
        let digest = digest_of([password]);
        if self.was_right(&digest) {
            return true;
        }
        let is_right = match &self.kind {
            Kind::Bcrypt(hash) => bcrypt::verify(password, hash).unwrap_or(false),
            Kind::Apr1 { salt, hash } => {
                are_equal(apr1(password, salt.as_bytes()).as_bytes(), hash.as_bytes())
            }
            Kind::Sha1(hash) => {
                let own = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, password);
                are_equal(own.as_ref(), hash)
            }
        };
        if is_right {
            *self.last_right.lock().unwrap_or_else(PoisonError::into_inner) = Some(digest);
        }
        is_right
    }

    fn was_right(&self, digest: &digest::Digest) -> bool {
        let last = self.last_right.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().is_some_and(|last| are_equal(last.as_ref(), digest.as_ref()))
    }
}

/// Returns the hash of Apache's MD5, without its prefix and salt.
fn apr1(password: &[u8], salt: &[u8]) -> String {
    let mut inner = Md5::new();
    inner.update(password);
    inner.update(salt);
    inner.update(password);
    let inner = inner.finalize();
    let mut outer = Md5::new();
    outer.update(password);
    outer.update(APR1.as_bytes());
    outer.update(salt);
    let mut rest = password.len();
    while rest > 0 {
        outer.update(&inner[..rest.min(inner.len())]);
        rest = rest.saturating_sub(inner.len());
    }
    let mut length = password.len();
    while length > 0 {
        if length & 1 == 1 {
            outer.update([0_u8]);
        } else {
            outer.update(&password[..1]);
        }
        length >>= 1;
    }
    let mut sum = outer.finalize();
    for round in 0..APR1_ROUNDS {
        let mut digest = Md5::new();
        if round % 2 == 1 {
            digest.update(password)
        } else {
            digest.update(&sum[..])
        }
        if round % 3 != 0 {
            digest.update(salt);
        }
        if round % 7 != 0 {
            digest.update(password);
        }
        if round % 2 == 1 {
            digest.update(&sum[..])
        } else {
            digest.update(password)
        }
        sum = digest.finalize();
    }
    printed(&sum)
}

/// Writes a digest in the alphabet and order of MD5-based crypt.
fn printed(sum: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut out = String::new();
    let mut write = |bytes: [u8; 3], letters: usize| {
        let mut value = u32::from(bytes[0]) << 16 | u32::from(bytes[1]) << 8 | u32::from(bytes[2]);
        for _ in 0..letters {
            out.push(char::from(ALPHABET[(value & 63) as usize]));
            value >>= 6;
        }
    };
    for [a, b, c] in [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]] {
        write([sum[a], sum[b], sum[c]], 4);
    }
    write([0, 0, sum[11]], 2);
    out
}

/// Returns a `{SHA}` hash, for tests.
#[cfg(test)]
pub(crate) fn sha1_hash(password: &str) -> String {
    let sum = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, password.as_bytes());
    format!("{SHA1}{}", super::base64::encode_base64(sum.as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Written by `htpasswd -nbm`, `-nbs` and `-nbB` of Apache, and by OpenSSL.
    const HASHES: [(&str, &str); 5] = [
        ("myPassword", "$apr1$qHDFfhPC$nITSVHgYbDAK1Y0acGRnY0"),
        ("password", "$apr1$xxxxxxxx$dxHfLAsjHkDRmG83UXe8K0"),
        ("myPassword", "{SHA}VBPuJHI7uixaa6LQGWx4s+5GKNE="),
        ("password", "{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g="),
        ("U*U", "$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW"),
    ];

    #[test]
    fn the_right_password_has_the_hash() {
        for (password, hash) in HASHES {
            let hash = PasswordHash::parse(hash).unwrap();
            assert!(!hash.is(b"wrong") && !hash.is(b""));
            assert!(hash.is(password.as_bytes()), "{password}");
            // Once known, it is not computed again.
            assert_eq!(hash.effort(password.as_bytes()), Effort::Short);
            assert!(hash.is(password.as_bytes()) && !hash.is(b"wrong"));
        }
        let slow = PasswordHash::parse(HASHES[4].1).unwrap();
        assert_eq!(slow.effort(b"U*U"), Effort::Long);
        assert!(PasswordHash::parse(&sha1_hash("x")).unwrap().is(b"x"));
    }

    #[test]
    fn a_long_password_is_wrong_without_being_hashed() {
        for (_, hash) in HASHES {
            let hash = PasswordHash::parse(hash).unwrap();
            let long = vec![b'a'; PASSWORD_BYTES_MAX + 1];
            assert_eq!(hash.effort(&long), Effort::Short);
            assert!(!hash.is(&long));
        }
    }

    #[tokio::test]
    async fn comparisons_of_one_hash_do_not_wait_without_bound() {
        let attacked = Arc::new(PasswordHash::parse(HASHES[4].1).unwrap());
        let compare = || Arc::clone(&attacked).is_elsewhere(b"wrong".to_vec());
        let mut waiting: Vec<_> = (0..COMPARISONS_MAX).map(|_| Box::pin(compare())).collect();
        for comparison in &mut waiting {
            assert!(futures_poll(comparison.as_mut()).is_none(), "it runs or waits");
        }
        assert_eq!(compare().await, None, "no place is left");
        let other = Arc::new(PasswordHash::parse(HASHES[4].1).unwrap());
        assert_eq!(other.is_elsewhere(b"U*U".to_vec()).await, Some(true), "of another name");
        for comparison in waiting {
            assert_eq!(comparison.await, Some(false));
        }
        assert_eq!(compare().await, Some(false), "the places are free again");
    }

    /// Polls once.
    fn futures_poll<F: Future>(future: std::pin::Pin<&mut F>) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match future.poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn other_hashes_are_refused_without_being_shown() {
        for hash in ["", "plain", "$apr1$x", "{SHA}x", "$2y$31$x", "$1$a$b"] {
            let error = PasswordHash::parse(hash).unwrap_err();
            assert!(hash.is_empty() || !error.text().contains(&format!("\"{hash}\"")));
        }
        let costly = HASHES[4].1.replace("$05$", "$31$");
        let error = PasswordHash::parse(&costly).unwrap_err();
        assert_eq!(error.text(), "the cost of a bcrypt hash must be at most 14");
    }
}
