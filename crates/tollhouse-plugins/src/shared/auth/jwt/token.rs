//! Parser for JSON Web Tokens in compact form.

use std::fmt;

use serde::de::{Error, MapAccess, Visitor};
use serde_json::{Map, Value};

use crate::shared::auth::base64::decode_base64_url;

/// Parsed token whose signature has not been verified.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    /// Signed bytes: header and payload as sent.
    pub signed: &'t [u8],
    /// `alg` of the header; empty if missing.
    pub algorithm: String,
    /// `kid` of the header: id of the signing key.
    pub key_id: Option<String>,
    /// Whether the header has `crit`, which lists extensions that must be understood.
    pub is_critical: bool,
    /// Claims of the token.
    pub payload: Map<String, Value>,
    /// Signature; empty if it is not base64, which no key verifies.
    pub signature: Vec<u8>,
}

impl<'t> Token<'t> {
    /// Parses the compact form `header.payload.signature`.
    pub fn parse(text: &'t [u8]) -> Option<Self> {
        let mut parts = text.split(|&byte| byte == b'.');
        let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let signed = &text[..header.len() + 1 + payload.len()];
        let mut header = object(header)?;
        let mut text = |name: &str| match header.remove(name) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (algorithm, key_id) = (text("alg").unwrap_or_default(), text("kid"));
        Some(Self {
            signed,
            algorithm,
            key_id,
            is_critical: header.contains_key("crit"),
            payload: object(payload)?,
            signature: decode_base64_url(signature).unwrap_or_default(),
        })
    }
}

fn object(encoded: &[u8]) -> Option<Map<String, Value>> {
    let object: UniqueNames = serde_json::from_slice(&decode_base64_url(encoded)?).ok()?;
    Some(object.0)
}

/// Object without duplicate names. Other programs could use the first of two equal claims.
struct UniqueNames(Map<String, Value>);

impl<'de> serde::Deserialize<'de> for UniqueNames {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = UniqueNames;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<UniqueNames, A::Error> {
                let mut fields = Map::new();
                while let Some((name, value)) = map.next_entry::<String, Value>()? {
                    if fields.insert(name, value).is_some() {
                        return Err(A::Error::custom("a name comes twice"));
                    }
                }
                Ok(UniqueNames(fields))
            }
        }

        reader.deserialize_map(Fields)
    }
}
