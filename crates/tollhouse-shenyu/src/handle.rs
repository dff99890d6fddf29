//! Handles and configurations: objects of JSON inside of a text.

use serde::Deserialize;

/// Reads one. A blank text is an object without members.
///
/// # Errors
/// Why it is no JSON object of the shape of `T`.
pub(crate) fn read<'a, T: Deserialize<'a> + Default>(text: Option<&'a str>) -> Result<T, String> {
    let text = text.map(str::trim).unwrap_or_default();
    if text.is_empty() {
        return Ok(T::default());
    }
    // Derived readers would take a list for the members in their order.
    if !text.starts_with('{') {
        return Err("expected a JSON object".to_owned());
    }
    serde_json::from_str(text).map_err(|error| error.to_string())
}
