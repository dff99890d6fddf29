//! Client authentication by signed assertions instead of a secret (RFC 7523 §2.2).

use aws_lc_rs::hmac;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, RSA_PKCS1_SHA256, RSA_PKCS1_SHA512, RsaKeyPair,
};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::random::token;
use crate::shared::auth::base64::decode_base64;
use crate::shared::auth::secret::SecretText;

/// Signature algorithm of assertions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum AssertionAlgorithm {
    HS256,
    HS512,
    RS256,
    RS512,
    ES256,
    ES512,
}

/// Signer of assertions for one client.
pub(crate) struct Signer {
    algorithm: AssertionAlgorithm,
    key: SigningKey,
    key_id: Option<String>,
    /// Audience of assertions; `None` for the endpoint.
    audience: Option<String>,
    lifetime_s: u64,
}

enum SigningKey {
    Shared(Box<hmac::Key>),
    Rsa(Box<RsaKeyPair>),
    Ec(Box<EcdsaKeyPair>),
}

/// Algorithm and keys with which client assertions are signed.
#[derive(Debug, Default)]
pub(crate) struct SignerConf<'c> {
    pub(crate) algorithm: Option<AssertionAlgorithm>,
    pub(crate) secret: Option<&'c SecretText>,
    /// Private key in PEM format.
    pub(crate) private_key: Option<&'c SecretText>,
    pub(crate) key_id: Option<String>,
    pub(crate) audience: Option<String>,
    pub(crate) lifetime_s: u64,
}

impl std::fmt::Debug for Signer {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Signer({:?})", self.algorithm)
    }
}

impl AssertionAlgorithm {
    fn name(self) -> &'static str {
        match self {
            Self::HS256 => "HS256",
            Self::HS512 => "HS512",
            Self::RS256 => "RS256",
            Self::RS512 => "RS512",
            Self::ES256 => "ES256",
            Self::ES512 => "ES512",
        }
    }

    fn is_shared(self) -> bool {
        matches!(self, Self::HS256 | Self::HS512)
    }
}

impl Signer {
    /// Returns a signer for `client_secret_jwt`.
    ///
    /// # Errors
    /// If the secret is missing, or the algorithm uses no shared secret.
    pub(crate) fn with_secret(conf: SignerConf<'_>) -> Result<Self, &'static str> {
        let algorithm = conf.algorithm.unwrap_or(AssertionAlgorithm::HS256);
        if !algorithm.is_shared() {
            return Err("client_secret_jwt signs by HS256 or HS512");
        }
        let secret = conf.secret.ok_or("client_secret_jwt needs client_secret")?;
        let mac = match algorithm {
            AssertionAlgorithm::HS512 => hmac::HMAC_SHA512,
            _ => hmac::HMAC_SHA256,
        };
        let key = SigningKey::Shared(Box::new(hmac::Key::new(mac, secret.as_bytes())));
        Ok(Self::new(conf, algorithm, key))
    }

    /// Returns a signer for `private_key_jwt`.
    ///
    /// # Errors
    /// If the private key is missing or invalid, or does not fit the algorithm.
    pub(crate) fn with_private_key(conf: SignerConf<'_>) -> Result<Self, &'static str> {
        let algorithm = conf.algorithm.unwrap_or(AssertionAlgorithm::RS256);
        if algorithm.is_shared() {
            return Err("private_key_jwt signs by RS256, RS512, ES256 or ES512");
        }
        let pem = conf.private_key.ok_or("private_key_jwt needs client_rsa_private_key")?;
        let key = SigningKey::read(pem.as_str(), algorithm)?;
        Ok(Self::new(conf, algorithm, key))
    }

    fn new(conf: SignerConf<'_>, algorithm: AssertionAlgorithm, key: SigningKey) -> Self {
        let SignerConf { key_id, audience, lifetime_s, .. } = conf;
        Self { algorithm, key, key_id, audience, lifetime_s }
    }

    /// Signs an assertion for `endpoint`, which can be used once. `None` if the system's random
    /// number generator fails.
    pub(crate) fn sign(&self, client_id: &str, endpoint: &str, now_s: u64) -> Option<String> {
        self.sign_claims(&json!({
            "iss": client_id, "sub": client_id,
            "aud": self.audience.as_deref().unwrap_or(endpoint),
            "jti": token()?, "iat": now_s, "exp": now_s.saturating_add(self.lifetime_s),
        }))
    }

    /// Signs an assertion with these claims only. `None` if the system's random number generator
    /// fails.
    pub(crate) fn sign_claims(&self, claims: &Value) -> Option<String> {
        let mut header = json!({"typ": "JWT", "alg": self.algorithm.name()});
        if let Some(key_id) = &self.key_id {
            header["kid"] = key_id.as_str().into();
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(&header), part(claims));
        let signature = self.key.sign(self.algorithm, text.as_bytes())?;
        Some(format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

impl SigningKey {
    fn read(pem: &str, algorithm: AssertionAlgorithm) -> Result<Self, &'static str> {
        let wrong = "client_rsa_private_key is not a PEM private key for this algorithm";
        let block = |label: &str| {
            let (_, rest) = pem.split_once(&format!("-----BEGIN {label}-----"))?;
            let (content, _) = rest.split_once("-----END ")?;
            let encoded: Vec<u8> =
                content.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
            decode_base64(&encoded)
        };
        let ec = |curve: &'static EcdsaSigningAlgorithm| {
            let pkcs8 = block("PRIVATE KEY").map(|der| EcdsaKeyPair::from_pkcs8(curve, &der));
            let key = pkcs8.or_else(|| {
                block("EC PRIVATE KEY").map(|der| EcdsaKeyPair::from_private_key_der(curve, &der))
            });
            let key = key.and_then(Result::ok).ok_or(wrong)?;
            Ok(Self::Ec(Box::new(key)))
        };
        match algorithm {
            AssertionAlgorithm::ES256 => ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
            AssertionAlgorithm::ES512 => ec(&ECDSA_P521_SHA512_FIXED_SIGNING),
            _ => {
                let pkcs8 = block("PRIVATE KEY").map(|der| RsaKeyPair::from_pkcs8(&der));
                let key = pkcs8
                    .or_else(|| block("RSA PRIVATE KEY").map(|der| RsaKeyPair::from_der(&der)));
                let key = key.and_then(Result::ok).ok_or(wrong)?;
                Ok(Self::Rsa(Box::new(key)))
            }
        }
    }

    fn sign(&self, algorithm: AssertionAlgorithm, text: &[u8]) -> Option<Vec<u8>> {
        let random = SystemRandom::new();
        match self {
            Self::Shared(key) => Some(hmac::sign(key, text).as_ref().to_vec()),
            Self::Ec(key) => Some(key.sign(&random, text).ok()?.as_ref().to_vec()),
            Self::Rsa(key) => {
                let padding = match algorithm {
                    AssertionAlgorithm::RS512 => &RSA_PKCS1_SHA512,
                    _ => &RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(padding, &random, text, &mut signature).ok()?;
                Some(signature)
            }
        }
    }
}
