//! Handles and plugin configurations: JSON objects written as text.

use serde::Deserialize;

/// Why a text is not a valid handle.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// The text is not a JSON object.
    #[error("expected a JSON object")]
    NoObject,
    /// The text is not JSON, or a member has the wrong type.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Parses a handle. A blank text is an object without members.
///
/// # Errors
///
/// If the text is not a JSON object of the shape of `T`.
pub(crate) fn read<'a, T: Deserialize<'a> + Default>(
    text: Option<&'a str>,
) -> Result<T, Malformed> {
    let text = text.map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Ok(T::default());
    }
    // Derived deserializers would also accept a JSON array with the members in order.
    if !text.starts_with('{') {
        return Err(Malformed::NoObject);
    }
    Ok(serde_json::from_str(text)?)
}
