//! Encryption of JSON fields by `cryptorRequest` and `cryptorResponse`: RSA with PKCS#1 v1.5
//! padding (RFC 8017 §7.2), in base64, as Java's `Cipher.getInstance("RSA")` has it. Keys are in
//! `cryptor/key.rs`.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;
use tollhouse_shenyu::answer::Answer;
use tollhouse_shenyu::lenient;
use tollhouse_shenyu::weight::is_light;

use crate::error::BuildError;
use crate::handle::{self, HandleError};
use crate::place::Place;

mod key;
mod small_rsa;

use key::{Private, Public};

/// Maximum number of names in the paths of all fields of a rule; each costs a look-up per request.
const NAMES_MAX: usize = 64;

/// Rule of `cryptorRequest` or `cryptorResponse`.
#[derive(Debug)]
pub struct CryptorRule {
    /// Path of each field: the names of the members, from the outermost object.
    fields: Vec<Vec<String>>,
    becomes: Becomes,
    way: Way,
}

/// Place of the result in the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Becomes {
    Body,
    /// The result replaces the field's value.
    Field,
}

enum Way {
    Decrypt(Box<Private>),
    Encrypt(Public),
}

impl fmt::Debug for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Decrypt(_) => "Decrypt(***)",
            Self::Encrypt(_) => "Encrypt(***)",
        })
    }
}

/// Reason why a rule cannot be used, found when the rule is compiled. ShenYu finds it at each
/// request; its answer names the error, except for [`Self::Handle`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// The handle is not a JSON object of this shape.
    #[error(transparent)]
    Handle(#[from] HandleError),
    /// The member of this name is missing.
    #[error("`{0}` is missing")]
    Lacks(&'static str),
    #[error("{0}")]
    Decryption(String),
    #[error("{0}")]
    Encryption(String),
}

/// Outcome of encrypting or decrypting a body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CryptOutcome {
    /// The body has none of the fields.
    FieldMissing,
    /// The body is not a JSON object.
    NoObject,
    Body(Vec<u8>),
    /// A field is not encrypted with this key.
    NotDecrypted,
    /// A field is too long for this key.
    NotEncrypted,
    /// The body has more JSON values than the gateway parses.
    TooHeavy,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Handle {
    #[serde(deserialize_with = "lenient::or_default")]
    strategy_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    field_names: String,
    #[serde(deserialize_with = "lenient::or_default")]
    decrypt_key: String,
    #[serde(deserialize_with = "lenient::or_default")]
    encrypt_key: String,
    #[serde(deserialize_with = "lenient::or_default")]
    way: String,
    #[serde(deserialize_with = "lenient::or_default")]
    map_type: String,
}

impl CryptorRule {
    /// Reads a handle; `None` for a blank one, which ShenYu skips.
    ///
    /// # Errors
    /// If the handle is malformed, or a member is missing or unusable.
    pub fn read(text: Option<&str>) -> Result<Option<Self>, Unusable> {
        if text.is_none_or(|text| text.trim().is_empty()) {
            return Ok(None);
        }
        let handle: Handle = handle::read(text)?;
        handle.refuse_missing()?;
        let fields: Vec<Vec<String>> = handle
            .field_names
            .split(',')
            .filter(|field| !field.trim().is_empty())
            .map(|field| field.split('.').map(|name| name.trim().to_owned()).collect())
            .collect();
        if fields.iter().map(Vec::len).sum::<usize>() > NAMES_MAX {
            let reason = format!("`fieldNames` has more than {NAMES_MAX} names");
            return Err(HandleError::Malformed(reason).into());
        }
        if fields.is_empty() {
            return Err(Unusable::Lacks("fieldNames"));
        }
        // Several results cannot all be the body.
        let is_alone = !handle.field_names.contains(',');
        let becomes = match handle.map_type.eq_ignore_ascii_case("field") && is_alone {
            true => Becomes::Body,
            false => Becomes::Field,
        };
        Ok(Some(Self { fields, becomes, way: handle.way()? }))
    }

    /// Whether bodies are confidential until this rule encrypts them, so that a body that cannot be
    /// read must not pass.
    pub const fn encrypts(&self) -> bool {
        matches!(self.way, Way::Encrypt(_))
    }

    /// Whether the rule names several fields. ShenYu then refuses requests without a body.
    pub const fn has_several_fields(&self) -> bool {
        self.fields.len() > 1
    }

    /// Decrypts or encrypts the fields of a body. Costs one RSA operation per field; one with a
    /// private key takes tenths of a millisecond.
    pub fn crypt(&self, body: &[u8]) -> CryptOutcome {
        if !is_light(body) {
            return CryptOutcome::TooHeavy;
        }
        let Ok(mut value @ Value::Object(_)) = serde_json::from_slice::<Value>(body) else {
            return CryptOutcome::NoObject;
        };
        let mut result = None;
        let mut failed = None;
        for field in &self.fields {
            let Some(place) = find(&mut value, field) else { continue };
            let text = match &*place {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            if self.has_several_fields() && text.trim().is_empty() {
                continue;
            }
            let crypted = match &self.way {
                Way::Decrypt(key) => key.decrypt(&text).ok_or(CryptOutcome::NotDecrypted),
                Way::Encrypt(key) => key.encrypt(&text).ok_or(CryptOutcome::NotEncrypted),
            };
            match crypted {
                Ok(text) => {
                    *place = Value::String(text.clone());
                    result = Some(text);
                }
                // One of several encrypted fields may stay as it is; a plain one may not.
                Err(failure) if self.has_several_fields() && !self.encrypts() => {
                    failed = Some(failure);
                }
                Err(failure) => return failure,
            }
        }
        if let (None, Some(failure)) = (&result, failed) {
            return failure;
        }
        match (result, self.becomes) {
            (None, _) => CryptOutcome::FieldMissing,
            (Some(result), Becomes::Body) => CryptOutcome::Body(result.into_bytes()),
            (Some(_), Becomes::Field) => CryptOutcome::Body(value.to_string().into_bytes()),
        }
    }
}

/// Returns the value of a field unless it is missing or `null`.
fn find<'a>(body: &'a mut Value, field: &[String]) -> Option<&'a mut Value> {
    let mut place = body;
    for name in field {
        place = place.as_object_mut()?.get_mut(name)?;
    }
    (!place.is_null()).then_some(place)
}

impl Handle {
    /// Refuses a handle without a member that ShenYu asks for, in ShenYu's order.
    fn refuse_missing(&self) -> Result<(), Unusable> {
        let is_key_missing = |way: &str, key: &str| self.way == way && key.is_empty();
        for (member, is_missing) in [
            ("way", self.way.is_empty()),
            ("strategyName", self.strategy_name.is_empty()),
            ("fieldNames", self.field_names.trim().is_empty()),
            ("decryptKey", is_key_missing("decrypt", &self.decrypt_key)),
            ("encryptKey", is_key_missing("encrypt", &self.encrypt_key)),
        ] {
            if is_missing {
                return Err(Unusable::Lacks(member));
            }
        }
        Ok(())
    }

    fn way(&self) -> Result<Way, Unusable> {
        let decrypts = self.way == "decrypt";
        let unusable = if decrypts { Unusable::Decryption } else { Unusable::Encryption };
        if self.strategy_name != "rsa" {
            let reason = format!("`strategyName` is `{}`; expected `rsa`", self.strategy_name);
            return Err(unusable(reason));
        }
        match &*self.way {
            "decrypt" => Private::read(&self.decrypt_key)
                .map(|key| Way::Decrypt(Box::new(key)))
                .map_err(|error| unusable(error.to_string())),
            "encrypt" => Public::read(&self.encrypt_key)
                .map(Way::Encrypt)
                .map_err(|error| unusable(error.to_string())),
            other => Err(unusable(format!("`way` is `{other}`; expected `encrypt` or `decrypt`"))),
        }
    }
}

/// Compiles the rule of a place; `lacks` returns the answer to a missing member.
///
/// # Errors
///
/// If the rule cannot be used, with ShenYu's answer to its requests.
pub(crate) fn compile(
    place: &Place<'_>,
    lacks: fn(&'static str) -> Answer,
) -> Result<Option<CryptorRule>, BuildError> {
    // A selector that applies without rules has a handle without members.
    let handle = if place.rule.is_some() { place.handle() } else { Some("{}") };
    CryptorRule::read(handle).map_err(|reason| {
        let answer = match &reason {
            Unusable::Handle(_) => Answer::InternalException,
            Unusable::Lacks(member) => lacks(member),
            Unusable::Decryption(_) => Answer::DecryptionFailed,
            Unusable::Encryption(_) => Answer::EncryptionFailed,
        };
        BuildError::Unusable { answer, reason: reason.to_string() }
    })
}

/// Checks a handle before it is stored.
pub(crate) fn check(handle: &str) -> Result<(), BuildError> {
    let rule = CryptorRule::read(Some(handle));
    rule.map(drop).map_err(|reason| BuildError::Invalid(reason.to_string()))
}

#[cfg(test)]
mod tests;
