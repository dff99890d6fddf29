//! Published keys of a signer (RFC 7517), and the choice of the key for a token.
//!
//! Symmetric keys in a set are ignored, because anyone could sign with a published secret.

use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

use super::keys::{Algorithm, Verifier};
use super::token::Token;
use crate::shared::auth::base64::decode_base64_url;

/// Largest number of keys per signer. A few dozen are in use during a rotation, and each may be
/// tried for a token.
const KEYS_MAX: usize = 64;

/// Shortest RSA modulus in bytes: 2048 bits, the least that providers publish today.
const MODULUS_BYTES_MIN: usize = 256;
/// Maximum length of an RSA modulus in bytes; longer ones make verification too expensive.
const MODULUS_BYTES_MAX: usize = 1_024;

/// Public keys that a signer publishes (JSON Web Key Set, RFC 7517).
#[derive(Debug, Default)]
pub(crate) struct KeySet {
    keys: Vec<PublishedKey>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signature {
    /// A key of the set made the signature.
    Good,
    /// No eligible key made the signature.
    Bad,
    /// No key has the algorithm and id of the token.
    UnknownKey,
}

/// Key as in the JSON of the key set.
#[derive(Deserialize)]
struct KeyDocument {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    alg: Option<String>,
    n: Option<String>,
    e: Option<String>,
    crv: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

struct PublishedKey {
    id: Option<String>,
    /// Only algorithm that the key may be used with, if the set names one.
    algorithm: Option<String>,
    material: Material,
    /// Prepared on first use, by algorithm.
    verifiers: [OnceLock<Option<Verifier>>; Algorithm::ALL.len()],
}

enum Material {
    Rsa {
        modulus: Vec<u8>,
        exponent: Vec<u8>,
    },
    /// Point on the curve of this algorithm.
    Point(Algorithm, Vec<u8>),
}

impl std::fmt::Debug for PublishedKey {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "PublishedKey({:?}, {:?})", self.id, self.algorithm)
    }
}

impl KeySet {
    /// Parses `{"keys": […]}`. Keys of other kinds or uses are skipped, as RFC 7517 §5 requires.
    ///
    /// # Errors
    /// If the list is missing or too long.
    pub(crate) fn read(document: &Value) -> Result<Self, &'static str> {
        let written =
            document.get("keys").and_then(Value::as_array).ok_or("it has no list `keys`")?;
        if written.len() > KEYS_MAX {
            return Err("it has too many keys");
        }
        let keys = written.iter().filter_map(PublishedKey::read).collect();
        Ok(Self { keys })
    }

    /// Verifies a token with the keys of the set. `algorithm` is the token's. If the token names a
    /// key, only that one is tried.
    pub(crate) fn verify(&self, token: &Token<'_>, algorithm: Algorithm) -> Signature {
        let is_meant = |key: &&PublishedKey| match (&token.key_id, &key.id) {
            (Some(named), Some(id)) => named == id,
            (Some(_), None) => false,
            (None, _) => true,
        };
        let mut found = Signature::UnknownKey;
        for key in self.keys.iter().filter(is_meant) {
            let Some(verifier) = key.verifier(algorithm) else { continue };
            if verifier.verify(token) {
                return Signature::Good;
            }
            found = Signature::Bad;
        }
        found
    }
}

impl PublishedKey {
    fn read(written: &Value) -> Option<Self> {
        let written = KeyDocument::deserialize(written).ok()?;
        if written.usage.as_deref().is_some_and(|usage| usage != "sig") {
            return None;
        }
        let material = Material::read(&written)?;
        let verifiers = [const { OnceLock::new() }; Algorithm::ALL.len()];
        Some(Self { id: written.kid, algorithm: written.alg, material, verifiers })
    }

    fn verifier(&self, algorithm: Algorithm) -> Option<&Verifier> {
        if self.algorithm.as_deref().is_some_and(|own| own != algorithm.name()) {
            return None;
        }
        let at = Algorithm::ALL.iter().position(|other| *other == algorithm)?;
        let verifier = self.verifiers[at].get_or_init(|| match &self.material {
            Material::Rsa { modulus, exponent } => {
                Verifier::from_rsa_numbers(algorithm, modulus, exponent)
            }
            Material::Point(own, bytes) if *own == algorithm => {
                Verifier::from_point(algorithm, bytes)
            }
            Material::Point(..) => None,
        });
        verifier.as_ref()
    }
}

impl Material {
    fn read(written: &KeyDocument) -> Option<Self> {
        let bytes = |text: &Option<String>| decode_base64_url(text.as_ref()?.as_bytes());
        match &*written.kty {
            "RSA" => {
                let modulus = without_zeros(&bytes(&written.n)?);
                let exponent = without_zeros(&bytes(&written.e)?);
                let is_usual = (MODULUS_BYTES_MIN..=MODULUS_BYTES_MAX).contains(&modulus.len())
                    && (1..=8).contains(&exponent.len());
                is_usual.then_some(Self::Rsa { modulus, exponent })
            }
            "EC" => {
                let (algorithm, width): (_, usize) = match written.crv.as_deref()? {
                    "P-256" => (Algorithm::ES256, 32),
                    "P-384" => (Algorithm::ES384, 48),
                    "P-521" => (Algorithm::ES512, 66),
                    _ => return None,
                };
                // Uncompressed form of SEC 1 §2.3.3.
                let mut point = vec![4];
                for coordinate in [bytes(&written.x)?, bytes(&written.y)?] {
                    let coordinate = without_zeros(&coordinate);
                    point.resize(point.len() + width.checked_sub(coordinate.len())?, 0);
                    point.extend(coordinate);
                }
                Some(Self::Point(algorithm, point))
            }
            "OKP" if written.crv.as_deref() == Some("Ed25519") => {
                Some(Self::Point(Algorithm::EdDSA, bytes(&written.x)?))
            }
            _ => None,
        }
    }
}

fn without_zeros(bytes: &[u8]) -> Vec<u8> {
    let start = bytes.iter().position(|byte| *byte != 0).unwrap_or(bytes.len());
    bytes[start..].to_vec()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Public keys of the signers of `tokens.txt`, extracted from their PEM with openssl.
    const KEYS: &str = include_str!("../../../../testdata/jwt/keys.json");
    const TOKENS: &str = include_str!("../../../../testdata/jwt/tokens.txt");

    fn published() -> Value {
        serde_json::from_str(KEYS).expect("JSON")
    }

    /// Algorithm, name of the key, and token.
    fn tokens() -> Vec<(Algorithm, &'static str, &'static str)> {
        let lines = TOKENS.lines().filter(|line| !line.starts_with('#'));
        let parts = lines.map(|line| line.split(' ').collect::<Vec<_>>());
        let tokens = parts.map(|parts| {
            let algorithm = Algorithm::named(parts[0]).expect("it is known");
            (algorithm, parts[1], parts[2])
        });
        tokens.collect()
    }

    fn token(text: &str) -> Token<'_> {
        Token::parse(text.as_bytes()).expect("three parts")
    }

    #[test]
    fn each_algorithms_tokens_are_verified_by_the_published_key() {
        let keys = KeySet::read(&published()).expect("they are good");
        assert_eq!(keys.keys.len(), 5);
        for (algorithm, name, text) in tokens() {
            // The tables of other tests list one RSA key twice, in two PEM formats.
            let name = name.split('_').next().unwrap_or(name);
            assert_eq!(keys.verify(&token(text), algorithm), Signature::Good, "{algorithm:?}");
            let named = Token { key_id: Some(name.to_owned()), ..token(text) };
            assert_eq!(keys.verify(&named, algorithm), Signature::Good, "{algorithm:?}");
            let other = Token { key_id: Some("other".to_owned()), ..token(text) };
            assert_eq!(keys.verify(&other, algorithm), Signature::UnknownKey, "{algorithm:?}");
            let mut forged = token(text);
            forged.signature[5] ^= 1;
            assert_eq!(keys.verify(&forged, algorithm), Signature::Bad, "{algorithm:?}");
            for wrong in Algorithm::ALL.into_iter().filter(|wrong| *wrong != algorithm) {
                assert_ne!(keys.verify(&token(text), wrong), Signature::Good, "{wrong:?}");
            }
        }
    }

    #[test]
    fn a_key_is_for_what_it_says_and_others_are_passed_over() {
        let (algorithm, _, text) = tokens()[0];
        let with = |member: &str, value: Value| {
            let mut keys = published();
            keys["keys"][0][member] = value;
            KeySet::read(&keys).expect("it is a list").verify(&token(text), algorithm)
        };
        assert_eq!(with("alg", json!("RS256")), Signature::Good);
        assert_eq!(with("alg", json!("PS256")), Signature::UnknownKey);
        assert_eq!(with("use", json!("enc")), Signature::UnknownKey);
        assert_eq!(with("kty", json!("oct")), Signature::UnknownKey);
        assert_eq!(with("n", json!("AQAB")), Signature::UnknownKey);
        assert_eq!(with("e", json!("")), Signature::UnknownKey);
        assert_eq!(with("n", json!(7)), Signature::UnknownKey);
        let secret = json!({"keys": [{"kty": "oct", "k": "AAAA"}, 7, null, {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"}]});
        let keys = KeySet::read(&secret).expect("it is a list");
        assert_eq!(keys.verify(&token(text), Algorithm::HS256), Signature::UnknownKey);
        assert_eq!(keys.verify(&token(text), Algorithm::ES256), Signature::UnknownKey);
        for wrong in
            [json!({}), json!([]), json!({"keys": {}}), json!({"keys": vec![json!({}); 65]})]
        {
            assert!(KeySet::read(&wrong).is_err(), "{wrong}");
        }
    }
}
