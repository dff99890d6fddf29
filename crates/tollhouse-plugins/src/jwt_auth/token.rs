//! A JSON Web Token in its compact form, taken apart.

use serde_json::{Map, Value};

use crate::shared::encoding::decode_base64_url;

/// A token of which nothing is verified yet.
#[derive(Debug)]
pub(super) struct Token<'t> {
    /// The bytes that the signature is about: header and payload as sent.
    pub signed: &'t [u8],
    /// `alg` of the header.
    pub algorithm: String,
    /// The claims.
    pub payload: Map<String, Value>,
    /// The signature.
    pub signature: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Takes `header.payload.signature` apart.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        let mut parts = text.split(|&byte| byte == b'.');
        let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let algorithm = match object(header)?.remove("alg") {
            Some(Value::String(name)) => name,
            _ => String::new(),
        };
        let signed = &text[..header.len() + 1 + payload.len()];
        let signature = decode_base64_url(signature)?;
        Some(Self { signed, algorithm, payload: object(payload)?, signature })
    }
}

fn object(encoded: &[u8]) -> Option<Map<String, Value>> {
    serde_json::from_slice(&decode_base64_url(encoded)?).ok()
}
