//! Checks of names, lengths and metadata that several kinds of objects share.

use crate::instance::Metadata;
use crate::limits::{
    METADATA_KEY_CHARS_MAX, METADATA_PAIRS_MAX, METADATA_VALUE_CHARS_MAX, NAMESPACE_CHARS_MAX,
    SERVICE_CHARS_MAX, TEXT_CHARS_MAX,
};
use crate::refusal::Refusal;

/// Checks metadata. `pairs` is the number of pairs sent, duplicate keys included.
pub(crate) fn metadata(metadata: &Metadata, pairs: usize) -> Result<(), Refusal> {
    let too_long = |key: &str, value: &str| {
        is_longer(key, METADATA_KEY_CHARS_MAX) || is_longer(value, METADATA_VALUE_CHARS_MAX)
    };
    let too_many = pairs.max(metadata.len()) > METADATA_PAIRS_MAX;
    let any_too_long = metadata.iter().any(|(key, value)| too_long(key, value));
    refuse_if(too_many || any_too_long, Refusal::Metadata)
}

/// Refuses an invalid name of a namespace.
pub(crate) fn namespace_name(text: &str) -> Result<(), Refusal> {
    refuse_if(!is_namespace_name(text), Refusal::NamespaceName)
}

/// Whether a text is a valid name of a namespace.
pub fn is_namespace_name(text: &str) -> bool {
    is_name(text, NAMESPACE_CHARS_MAX)
}

/// Whether a text is a name of at most `chars_max` characters.
pub(crate) fn is_name(text: &str, chars_max: usize) -> bool {
    let is_good = |byte: u8| byte.is_ascii_alphanumeric() || b"-./:_".contains(&byte);
    (1..=chars_max).contains(&text.len()) && text.bytes().all(is_good)
}

/// Whether a text has more than `chars_max` characters.
pub(crate) fn is_longer(text: &str, chars_max: usize) -> bool {
    // Byte lengths decide most cases without counting: a character takes one to four bytes.
    text.len() > chars_max && (text.len() > 4 * chars_max || text.chars().nth(chars_max).is_some())
}

/// Returns the refusal if the check has failed.
pub(crate) fn refuse_if(refused: bool, refusal: Refusal) -> Result<(), Refusal> {
    if refused { Err(refusal) } else { Ok(()) }
}

/// Whether a text is a valid name of a service or alias.
pub fn is_service_name(text: &str) -> bool {
    is_name(text, SERVICE_CHARS_MAX)
}

/// Checks the length of a free text. `what` is the name of the field in the refusal.
pub(crate) fn text(text: &str, what: &'static str) -> Result<(), Refusal> {
    refuse_if(is_longer(text, TEXT_CHARS_MAX), Refusal::Parameter(what))
}
