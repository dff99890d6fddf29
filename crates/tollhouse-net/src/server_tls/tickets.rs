//! Session tickets, which let clients resume a session without a full handshake (RFC 8446 §2.2, RFC
//! 5077).
//!
//! All cores share one ring of keys, which is handed over to a successor process. A ticket is bound
//! to the client-certificate terms of its host: a ticket from a host without client certificates is
//! not valid for a host that requires them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::error::Unspecified;
use rustls::server::ProducesTickets;

/// Period in seconds for which a key seals tickets; afterwards it opens them for the same period.
const ROTATION_S: u64 = 6 * 3600;

/// Length of a key's name, the first bytes of a ticket.
const NAME_BYTES: usize = 16;

/// Length of an AES-256 key in bytes.
const SECRET_BYTES: usize = 32;

/// Length of an exported key: name, secret and creation time.
const EXPORTED_BYTES: usize = NAME_BYTES + SECRET_BYTES + 8;

/// Maximum number of keys in a ring: the current one and its predecessor.
const KEYS_MAX: usize = 2;

/// Maximum length of the result of [`TicketKeys::export`] in bytes.
pub const EXPORT_BYTES_MAX: usize = KEYS_MAX * EXPORTED_BYTES;

/// Ring of keys that seal session tickets.
#[derive(Debug)]
pub struct TicketKeys {
    ring: ArcSwap<Ring>,
    /// Lock of the ring's rotation; sealing and opening do not take it otherwise.
    turning: Mutex<()>,
}

/// Keys in use, the newest first.
#[derive(Debug)]
struct Ring(Vec<Arc<Key>>);

struct Key {
    name: [u8; NAME_BYTES],
    secret: [u8; SECRET_BYTES],
    made_unix_s: u64,
    cipher: RandomizedNonceKey,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Key").field("made_unix_s", &self.made_unix_s).finish_non_exhaustive()
    }
}

impl Key {
    fn new(
        name: [u8; NAME_BYTES],
        secret: [u8; SECRET_BYTES],
        made_unix_s: u64,
    ) -> Result<Self, Unspecified> {
        let cipher = RandomizedNonceKey::new(&AES_256_GCM, &secret)?;
        Ok(Self { name, secret, made_unix_s, cipher })
    }

    fn random(now_unix_s: u64) -> Result<Self, Unspecified> {
        let (mut name, mut secret) = ([0; NAME_BYTES], [0; SECRET_BYTES]);
        aws_lc_rs::rand::fill(&mut name)?;
        aws_lc_rs::rand::fill(&mut secret)?;
        Self::new(name, secret, now_unix_s)
    }

    /// Returns the age of the key; 0 if the clock was set back.
    fn age_s(&self, now_unix_s: u64) -> u64 {
        now_unix_s.saturating_sub(self.made_unix_s)
    }
}

impl TicketKeys {
    /// Creates a ring with one new key.
    ///
    /// # Errors
    /// If the system's random number generator is unavailable.
    pub fn new() -> Result<Self, Unspecified> {
        let key = Key::random(unix_s())?;
        Ok(Self::from_keys(vec![Arc::new(key)]))
    }

    fn from_keys(keys: Vec<Arc<Key>>) -> Self {
        Self { ring: ArcSwap::from_pointee(Ring(keys)), turning: Mutex::new(()) }
    }

    /// Exports the keys for a successor process; at most [`EXPORT_BYTES_MAX`] bytes, which are
    /// secret.
    pub fn export(&self) -> Vec<u8> {
        let ring = self.ring.load();
        let mut bytes = Vec::with_capacity(EXPORT_BYTES_MAX);
        for key in &ring.0 {
            bytes.extend_from_slice(&key.name);
            bytes.extend_from_slice(&key.secret);
            bytes.extend_from_slice(&key.made_unix_s.to_be_bytes());
        }
        bytes
    }

    /// Imports a ring that a predecessor exported; `None` if the bytes are invalid.
    pub fn import(bytes: &[u8]) -> Option<Self> {
        let (keys, rest) = bytes.as_chunks::<EXPORTED_BYTES>();
        if keys.is_empty() || keys.len() > KEYS_MAX || !rest.is_empty() {
            return None;
        }
        let key = |bytes: &[u8; EXPORTED_BYTES]| {
            let (name, rest) = bytes.split_first_chunk::<NAME_BYTES>()?;
            let (secret, made) = rest.split_first_chunk::<SECRET_BYTES>()?;
            let made_unix_s = u64::from_be_bytes(made.try_into().ok()?);
            Key::new(*name, *secret, made_unix_s).ok().map(Arc::new)
        };
        keys.iter().map(key).collect::<Option<Vec<_>>>().map(Self::from_keys)
    }

    /// Returns the key for sealing at `now_unix_s`; rotates the ring first if due.
    fn sealing(&self, now_unix_s: u64) -> Option<Arc<Key>> {
        let fresh =
            |ring: &Ring| ring.0.first().filter(|key| key.age_s(now_unix_s) < ROTATION_S).cloned();
        if let Some(key) = fresh(&self.ring.load()) {
            return Some(key);
        }
        let _turning = self.turning.lock().unwrap_or_else(PoisonError::into_inner);
        let ring = self.ring.load();
        // Another core may have rotated the ring meanwhile.
        if let Some(key) = fresh(&ring) {
            return Some(key);
        }
        let key = Arc::new(Key::random(now_unix_s).ok()?);
        let mut keys = vec![Arc::clone(&key)];
        keys.extend(ring.0.iter().take(KEYS_MAX - 1).cloned());
        self.ring.store(Arc::new(Ring(keys)));
        Some(key)
    }

    /// Seals a ticket: key name, nonce, ciphertext.
    fn seal(&self, plain: &[u8], policy: &[u8], now_unix_s: u64) -> Option<Vec<u8>> {
        let key = self.sealing(now_unix_s)?;
        let mut sealed = plain.to_vec();
        let nonce = key.cipher.seal_in_place_append_tag(Aad::from(policy), &mut sealed).ok()?;
        let mut ticket = Vec::with_capacity(NAME_BYTES + NONCE_LEN + sealed.len());
        ticket.extend_from_slice(&key.name);
        ticket.extend_from_slice(nonce.as_ref());
        ticket.extend_from_slice(&sealed);
        Some(ticket)
    }

    fn open(&self, ticket: &[u8], policy: &[u8], now_unix_s: u64) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_first_chunk::<NAME_BYTES>()?;
        let (nonce, sealed) = rest.split_first_chunk::<NONCE_LEN>()?;
        let ring = self.ring.load();
        let key = ring.0.iter().find(|key| key.name == *name)?;
        if key.age_s(now_unix_s) >= 2 * ROTATION_S {
            return None;
        }
        let mut opened = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let bytes = key.cipher.open_in_place(nonce, Aad::from(policy), &mut opened).ok()?.len();
        opened.truncate(bytes);
        Some(opened)
    }
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Tickets of one host: the shared ring, bound to the host's client-certificate terms.
#[derive(Debug)]
pub(super) struct PolicyTickets {
    keys: Arc<TicketKeys>,
    policy: [u8; 32],
}

impl PolicyTickets {
    pub(super) fn new(keys: Arc<TicketKeys>, policy: [u8; 32]) -> Self {
        Self { keys, policy }
    }
}

impl ProducesTickets for PolicyTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        // A ticket sealed in a key's last second stays valid as long as the key opens tickets.
        u32::try_from(ROTATION_S).unwrap_or(u32::MAX)
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.keys.seal(plain, &self.policy, unix_s())
    }

    fn decrypt(&self, ticket: &[u8]) -> Option<Vec<u8>> {
        self.keys.open(ticket, &self.policy, unix_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    fn ring() -> TicketKeys {
        let key = Key::random(NOW).expect("randomness");
        TicketKeys::from_keys(vec![Arc::new(key)])
    }

    #[test]
    fn a_ticket_opens_under_its_own_terms_only_and_as_it_was_sealed() {
        let keys = ring();
        let ticket = keys.seal(b"session", b"none", NOW).expect("it seals");
        assert_eq!(keys.open(&ticket, b"none", NOW).as_deref(), Some(&b"session"[..]));
        assert_eq!(keys.open(&ticket, b"some authority", NOW), None);
        assert_eq!(ring().open(&ticket, b"none", NOW), None);
        for place in 0..ticket.len() {
            let mut other = ticket.clone();
            other[place] ^= 1;
            assert_eq!(keys.open(&other, b"none", NOW), None, "byte {place}");
            assert_eq!(keys.open(&ticket[..place], b"none", NOW), None, "cut at {place}");
        }
    }

    #[test]
    fn a_ticket_outlives_one_turn_of_the_ring_and_no_second_one() {
        let keys = ring();
        let ticket = keys.seal(b"session", b"none", NOW).expect("it seals");
        let turned = NOW + ROTATION_S;
        let newer = keys.seal(b"newer", b"none", turned).expect("it seals");
        assert_ne!(ticket[..NAME_BYTES], newer[..NAME_BYTES]);
        assert!(keys.open(&ticket, b"none", turned).is_some());
        assert_eq!(keys.open(&ticket, b"none", NOW + 2 * ROTATION_S), None, "of old age");
        keys.seal(b"newest", b"none", turned + ROTATION_S).expect("it seals");
        assert_eq!(keys.open(&ticket, b"none", turned), None, "its key is gone");
        assert_eq!(keys.export().len(), EXPORT_BYTES_MAX);
    }

    #[test]
    fn a_successor_opens_what_its_predecessor_sealed() {
        let old = ring();
        let before = old.seal(b"before", b"none", NOW).expect("it seals");
        let after = old.seal(b"after", b"none", NOW + ROTATION_S).expect("it seals");
        let new = TicketKeys::import(&old.export()).expect("it is a ring");
        for (ticket, expected) in [(before, &b"before"[..]), (after, b"after")] {
            let opened = new.open(&ticket, b"none", NOW + ROTATION_S);
            assert_eq!(opened.as_deref(), Some(expected));
        }
    }

    #[test]
    fn what_is_no_ring_is_not_imported() {
        for length in [0, 1, EXPORTED_BYTES - 1, EXPORTED_BYTES + 1, 3 * EXPORTED_BYTES] {
            assert!(TicketKeys::import(&vec![0; length]).is_none(), "{length}");
        }
    }
}
