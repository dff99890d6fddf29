//! Handles and configurations: objects of JSON inside of a text.

use serde::Deserialize;

/// Why a text is no handle.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// It is something else than an object.
    #[error("expected a JSON object")]
    NoObject,
    /// It is no JSON, or its members are of other types.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

/// Reads one. A blank text is an object without members.
///
/// # Errors
/// Why it is no JSON object of the shape of `T`.
pub(crate) fn read<'a, T: Deserialize<'a> + Default>(
    text: Option<&'a str>,
) -> Result<T, Malformed> {
    let text = text.map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Ok(T::default());
    }
    // Derived readers would take a list for the members in their order.
    if !text.starts_with('{') {
        return Err(Malformed::NoObject);
    }
    Ok(serde_json::from_str(text)?)
}
