//! Log-ins by SCRAM (RFC 5802, RFC 7677): the password does not travel, and the broker shows that it knows it too.
//! And by PLAIN (RFC 4616), where it does.

use std::num::NonZeroU32;

use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Rounds that a broker must ask for at least, as Kafka has it: with fewer, whoever listens could guess.
const ROUNDS_MIN: u32 = 4_096;
/// Rounds at most, eight times Kafka's own bound: each costs time here, and a hostile broker would ask for years.
const ROUNDS_MAX: u32 = 131_072;

/// Characters of a broker's reason that are passed on.
const REASON_CHARS_MAX: usize = 200;

/// How who logs in shows who it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Mechanism {
    /// By the password itself.
    Plain,
    /// By knowing it.
    Scram(Digest),
}

impl Mechanism {
    const ALL: [Self; 3] = [Self::Plain, Self::Scram(Digest::Sha256), Self::Scram(Digest::Sha512)];

    /// As the protocol calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::Scram(Digest::Sha256) => "SCRAM-SHA-256",
            Self::Scram(Digest::Sha512) => "SCRAM-SHA-512",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// The hash that a log-in is made with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Digest {
    /// SCRAM-SHA-256.
    Sha256,
    /// SCRAM-SHA-512.
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

/// Why a log-in does not go on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScramError {
    /// The broker's message has another form.
    #[error("the broker's message of the log-in is none of SCRAM")]
    Form,
    /// The broker answers another log-in.
    #[error("the broker's number does not begin with ours")]
    Nonce,
    /// It asks for too few rounds, or for too many.
    #[error("the broker asks for {0} rounds of hashing; {ROUNDS_MIN} to {ROUNDS_MAX} are done")]
    Rounds(u32),
    /// The broker refuses, in its words.
    #[error("the broker refuses the log-in: {0}")]
    Refused(String),
    /// The broker does not know the password.
    #[error("the broker does not know the user's password, and may be another one than meant")]
    Server,
}

/// A log-in.
#[derive(Debug)]
pub struct Scram<'a> {
    hash: Digest,
    password: &'a str,
    nonce: &'a str,
    /// The first message without its head.
    first: String,
}

/// What the broker has to show at the end.
#[derive(Debug, PartialEq, Eq)]
pub struct Proof(Vec<u8>);

impl<'a> Scram<'a> {
    /// A log-in of a user; `nonce` is a text of random characters without commas that was never used before.
    pub fn new(hash: Digest, user: &str, password: &'a str, nonce: &'a str) -> Self {
        let user = user.replace('=', "=3D").replace(',', "=2C");
        Self { hash, password, nonce, first: format!("n={user},r={nonce}") }
    }

    /// The first message.
    pub fn first_message(&self) -> String {
        format!("n,,{}", self.first)
    }

    /// The second message, as an answer to the broker's first, and what the broker has to show then.
    ///
    /// # Errors
    /// When that is none, or asks for too much.
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
    /// Looks at the broker's last message.
    ///
    /// # Errors
    /// When it refuses, or does not know the password.
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

/// The only message of a log-in by PLAIN.
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
