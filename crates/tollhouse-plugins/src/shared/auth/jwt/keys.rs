//! Signature algorithms of tokens, and keys that verify them.

use aws_lc_rs::hmac;
use aws_lc_rs::rsa::PublicKeyComponents;
use aws_lc_rs::signature::{self, ParsedPublicKey, RsaParameters, VerificationAlgorithm};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::token::Token;
use crate::shared::auth::base64::decode_base64;

/// Signature algorithm (RFC 7518 §3.1, RFC 8037 §3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
pub enum Algorithm {
    #[default]
    HS256,
    HS384,
    HS512,
    RS256,
    RS384,
    RS512,
    ES256,
    ES384,
    ES512,
    PS256,
    PS384,
    PS512,
    EdDSA,
}

impl Algorithm {
    pub const ALL: [Algorithm; 13] = [
        Self::HS256,
        Self::HS384,
        Self::HS512,
        Self::RS256,
        Self::RS384,
        Self::RS512,
        Self::ES256,
        Self::ES384,
        Self::ES512,
        Self::PS256,
        Self::PS384,
        Self::PS512,
        Self::EdDSA,
    ];

    /// Returns the algorithm that a token's `alg` names.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns the value of `alg` in tokens.
    pub fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS384 => "HS384",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS384 => "RS384",
            Self::RS512 => "RS512",
            Self::ES256 => "ES256",
            Self::ES384 => "ES384",
            Self::ES512 => "ES512",
            Self::PS256 => "PS256",
            Self::PS384 => "PS384",
            Self::PS512 => "PS512",
            Self::EdDSA => "EdDSA",
        }
    }

    /// Whether signer and verifier share one secret key (HMAC).
    pub fn is_shared_secret(self) -> bool {
        self.mac().is_some()
    }

    fn mac(self) -> Option<hmac::Algorithm> {
        match self {
            Self::HS256 => Some(hmac::HMAC_SHA256),
            Self::HS384 => Some(hmac::HMAC_SHA384),
            Self::HS512 => Some(hmac::HMAC_SHA512),
            _ => None,
        }
    }

    /// Returns the verification of RSA signatures; `None` for other kinds.
    fn rsa(self) -> Option<&'static RsaParameters> {
        Some(match self {
            // Keys with 1024 bits are still in use in old configurations.
            Self::RS256 => &signature::RSA_PKCS1_1024_8192_SHA256_FOR_LEGACY_USE_ONLY,
            Self::RS384 => &signature::RSA_PKCS1_2048_8192_SHA384,
            Self::RS512 => &signature::RSA_PKCS1_1024_8192_SHA512_FOR_LEGACY_USE_ONLY,
            Self::PS256 => &signature::RSA_PSS_2048_8192_SHA256,
            Self::PS384 => &signature::RSA_PSS_2048_8192_SHA384,
            Self::PS512 => &signature::RSA_PSS_2048_8192_SHA512,
            _ => return None,
        })
    }

    /// Returns the verification of asymmetric signatures; `None` for HMAC.
    fn verification(self) -> Option<&'static dyn VerificationAlgorithm> {
        Some(match self {
            Self::HS256 | Self::HS384 | Self::HS512 => return None,
            Self::ES256 => &signature::ECDSA_P256_SHA256_FIXED,
            Self::ES384 => &signature::ECDSA_P384_SHA384_FIXED,
            Self::ES512 => &signature::ECDSA_P521_SHA512_FIXED,
            Self::EdDSA => &signature::ED25519,
            _ => self.rsa()?,
        })
    }
}

/// Prepared key of a consumer or signer.
pub(crate) enum Verifier {
    /// Shared secret. Prepared anew for each token, which takes a microsecond; storing the prepared
    /// key would take a kilobyte for each of many consumers.
    Mac(hmac::Algorithm, Box<[u8]>),
    Signature(ParsedPublicKey),
}

impl Verifier {
    /// Prepares a shared secret; `None` if the algorithm is asymmetric.
    pub fn from_secret(algorithm: Algorithm, secret: &[u8]) -> Option<Self> {
        algorithm.mac().map(|mac| Self::Mac(mac, secret.into()))
    }

    /// Prepares a public key in PEM; `None` if it does not fit the algorithm.
    pub fn from_public_key(algorithm: Algorithm, pem: &str) -> Option<Self> {
        let key = ParsedPublicKey::new(algorithm.verification()?, der_of(pem)?).ok()?;
        Some(Self::Signature(key))
    }

    /// Prepares raw key bytes: a point on the algorithm's curve, or an EdDSA key.
    pub fn from_point(algorithm: Algorithm, bytes: &[u8]) -> Option<Self> {
        let is_of_this_kind = algorithm.rsa().is_none();
        let verification = algorithm.verification().filter(|_| is_of_this_kind)?;
        Some(Self::Signature(ParsedPublicKey::new(verification, bytes).ok()?))
    }

    /// Prepares an RSA key from modulus and exponent, without leading zeros.
    pub fn from_rsa_numbers(algorithm: Algorithm, modulus: &[u8], exponent: &[u8]) -> Option<Self> {
        let key = PublicKeyComponents { n: modulus, e: exponent };
        Some(Self::Signature(key.to_parsed_public_key(algorithm.rsa()?).ok()?))
    }

    /// Whether the token was signed with this key.
    pub fn verify(&self, token: &Token<'_>) -> bool {
        match self {
            Self::Mac(algorithm, secret) => {
                let key = hmac::Key::new(*algorithm, secret);
                hmac::verify(&key, token.signed, &token.signature).is_ok()
            }
            Self::Signature(key) => key.verify_sig(token.signed, &token.signature).is_ok(),
        }
    }
}

/// Returns the decoded content of the first PEM block with a public key.
fn der_of(pem: &str) -> Option<Vec<u8>> {
    ["PUBLIC KEY", "RSA PUBLIC KEY"].iter().find_map(|label| {
        let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
        let (content, _) = rest.split_once("-----END ")?;
        let encoded: Vec<u8> = content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        decode_base64(&encoded)
    })
}
