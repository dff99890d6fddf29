//! SASL logins. With SCRAM (RFC 5802, RFC 7677) the password is never sent, and the broker proves
//! that it knows it too. With PLAIN (RFC 4616) the password is sent.

use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Fewest iterations that a broker may request, as in Kafka. With fewer, an eavesdropper could
/// guess the password.
const ROUNDS_MIN: u32 = 4_096;
/// Maximum number of iterations, eight times Kafka's own limit. Each costs time here, so a hostile
/// broker could stall the client.
const ROUNDS_MAX: u32 = 131_072;

/// Maximum number of characters kept of a broker's error message.
const REASON_CHARS_MAX: usize = 200;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// `PLAIN`, which sends the password itself.
    Plain,
    /// `SCRAM`, which proves knowledge of the password without sending it.
    Scram(Digest),
}

impl Mechanism {
    const ALL: [Self; 3] = [Self::Plain, Self::Scram(Digest::Sha256), Self::Scram(Digest::Sha512)];

    /// Returns the name of the mechanism in the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Digest::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Digest::Sha512) => "SCRAM-SHA-512",
        }
    }

    /// Finds a mechanism by its name in the protocol.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// Hash function of a SCRAM mechanism.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    Sha256,
    Sha512,
}

impl Digest {
    const fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    const fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Sha256 => &digest::SHA256,
            Self::Sha512 => &digest::SHA512,
        }
    }

    fn stretched(self, password: &[u8], salt: &[u8], rounds: NonZeroU32) -> Vec<u8> {
        let algorithm = match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        };
        let mut key = vec![0; self.digest().output_len()];
        pbkdf2::derive(algorithm, rounds, salt, password, &mut key);
        key
    }

    fn signed(self, key: &[u8], text: &[u8]) -> hmac::Tag {
        hmac::sign(&hmac::Key::new(self.hmac(), key), text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The broker's message is not a SCRAM message.
    #[error("the broker's message is not a SCRAM message")]
    Form,
    /// The broker's nonce does not begin with the client's, so the message belongs to another
    /// login.
    #[error("the broker's nonce does not begin with the client's")]
    Nonce,
    /// The number of iterations is out of range.
    #[error("the broker asks for {0} rounds of hashing; {ROUNDS_MIN} to {ROUNDS_MAX} are allowed")]
    Rounds(u32),
    /// The broker refuses the login with this message.
    #[error("the broker refuses the log-in: {0}")]
    Refused(String),
    /// The broker failed to prove that it knows the password.
    #[error("the broker does not know the user's password and may be an impostor")]
    Server,
}

/// State of a SCRAM login (RFC 5802), after the client's first message.
#[derive(Debug)]
pub struct Scram<'a> {
    hash: Digest,
    password: &'a str,
    nonce: &'a str,
    /// First message without the GS2 header.
    first: String,
}

/// Signature that the broker must present at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof(Vec<u8>);

impl<'a> Scram<'a> {
    /// Starts a login of a user. `nonce` must be random text without commas that is never reused.
    pub fn new(hash: Digest, user: &str, password: &'a str, nonce: &'a str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { hash, password, nonce, first: format!("n={user},r={nonce}") }
    }

    pub fn first_message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// Returns the client's final message in response to the broker's first one, and the signature
    /// to expect from the broker.
    ///
    /// # Errors
    ///
    /// If the broker's message is malformed, or its nonce or number of iterations is unacceptable.
    pub fn second_message(&self, answer: &[u8]) -> Result<(String, Proof), ScramError> {
        let answer = std::str::from_utf8(answer).map_err(|_| ScramError::Form)?;
        let mut parts = answer.split(',');
        let mut part = |name: &str| parts.next().and_then(|part| part.strip_prefix(name));
        let nonce = part("r=").ok_or(ScramError::Form)?;
        let salt = part("s=").and_then(|salt| STANDARD.decode(salt).ok());
        let salt = salt.ok_or(ScramError::Form)?;
        let rounds = part("i=").and_then(|rounds| rounds.parse().ok()).ok_or(ScramError::Form)?;
        if !nonce.starts_with(self.nonce) || nonce.len() == self.nonce.len() {
            return Err(ScramError::Nonce);
        }
        let allowed =
            NonZeroU32::new(rounds).filter(|_| (ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds));
        let allowed = allowed.ok_or(ScramError::Rounds(rounds))?;
        let hash = self.hash;
        let salted = hash.stretched(self.password.as_bytes(), &salt, allowed);
        let client_key = hash.signed(&salted, b"Client Key");
        let stored_key = digest::digest(hash.digest(), client_key.as_ref());
        let bare = format!("c=biws,r={nonce}");
        let all = format!("{},{answer},{bare}", self.first);
        let signature = hash.signed(stored_key.as_ref(), all.as_bytes());
        let pairs = client_key.as_ref().iter().zip(signature.as_ref());
        let proof: Vec<u8> = pairs.map(|(key, mask)| key ^ mask).collect();
        let server_key = hash.signed(&salted, b"Server Key");
        let expected = hash.signed(server_key.as_ref(), all.as_bytes()).as_ref().to_vec();
        Ok((format!("{bare},p={}", STANDARD.encode(proof)), Proof(expected)))
    }
}

impl Proof {
    /// Verifies the broker's final message.
    ///
    /// # Errors
    ///
    /// If the broker refuses the login or presents a wrong signature.
    pub fn check(&self, answer: &[u8]) -> Result<(), ScramError> {
        let answer = std::str::from_utf8(answer).map_err(|_| ScramError::Form)?;
        let part = answer.split(',').next().unwrap_or_default();
        if let Some(reason) = part.strip_prefix("e=") {
            return Err(ScramError::Refused(reason.chars().take(REASON_CHARS_MAX).collect()));
        }
        let shown = part.strip_prefix("v=").and_then(|shown| STANDARD.decode(shown).ok());
        let shown = shown.ok_or(ScramError::Form)?;
        constant_time::verify_slices_are_equal(&shown, &self.0).map_err(|_| ScramError::Server)
    }
}

/// Returns the only message of a PLAIN login.
pub fn plain_message(user: &str, password: &str) -> Vec<u8> {
    format!("\0{user}\0{password}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "rOprNGfwEbeRWgbNEkqO";
    const FIRST: &str =
        "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096";

    fn scram() -> Scram<'static> {
        Scram::new(Digest::Sha256, "user", "pencil", NONCE)
    }

    /// The example of RFC 7677 §3.
    #[test]
    fn a_log_in_goes_as_in_the_standard() {
        assert_eq!(scram().first_message(), "n,,n=user,r=rOprNGfwEbeRWgbNEkqO");
        let (second, proof) = scram().second_message(FIRST.as_bytes()).expect("it goes on");
        let expected = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
                        p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
        assert_eq!(second, expected);
        assert_eq!(proof.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="), Ok(()));
        assert_eq!(
            proof.check(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G8="),
            Err(ScramError::Server)
        );
        assert_eq!(proof.check(b"v="), Err(ScramError::Server), "nothing shown is no proof");
        let refused = ScramError::Refused("invalid-proof".to_owned());
        assert_eq!(proof.check(b"e=invalid-proof"), Err(refused));
        assert_eq!(proof.check(b""), Err(ScramError::Form));
    }

    #[test]
    fn mechanisms_have_their_names() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Mechanism::named(mechanism.name()), Some(mechanism));
        }
        assert_eq!(Mechanism::named("GSSAPI"), None);
    }

    #[test]
    fn names_are_written_so_that_they_end_nothing() {
        let scram = Scram::new(Digest::Sha512, "a=b,c", "p", "n");
        assert_eq!(scram.first_message(), "n,,n=a=3Db=2Cc,r=n");
        assert_eq!(plain_message("u", "p"), b"\0u\0p");
    }

    #[test]
    fn a_broker_that_is_none_is_found_out() {
        for (answer, expected) in [
            ("", ScramError::Form),
            ("r=x", ScramError::Form),
            ("r=x,s=AAAA,i=4096", ScramError::Nonce),
            ("r=rOprNGfwEbeRWgbNEkqO,s=AAAA,i=4096", ScramError::Nonce),
            ("r=rOprNGfwEbeRWgbNEkqO1,s=!,i=4096", ScramError::Form),
            ("r=rOprNGfwEbeRWgbNEkqO1,s=AAAA,i=x", ScramError::Form),
            ("r=rOprNGfwEbeRWgbNEkqO1,s=AAAA,i=1", ScramError::Rounds(1)),
            ("r=rOprNGfwEbeRWgbNEkqO1,s=AAAA,i=4294967295", ScramError::Rounds(u32::MAX)),
        ] {
            assert_eq!(scram().second_message(answer.as_bytes()), Err(expected), "{answer}");
        }
        assert_eq!(scram().second_message(b"\xff"), Err(ScramError::Form));
    }

    #[test]
    fn the_longer_hash_gives_longer_proofs() {
        let scram = Scram::new(Digest::Sha512, "user", "pencil", NONCE);
        let (second, proof) = scram.second_message(FIRST.as_bytes()).expect("it goes on");
        let (_, shown) = second.rsplit_once("p=").expect("a proof");
        assert_eq!((STANDARD.decode(shown).expect("base64").len(), proof.0.len()), (64, 64));
    }
}
