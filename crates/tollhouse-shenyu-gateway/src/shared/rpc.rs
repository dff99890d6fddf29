//! Names of RPC services and methods.

/// Returns the trimmed name of a service or method if it contains only letters, digits, `_`, `.`
/// and `$`, which are safe in a path.
pub(crate) fn name(text: Option<&str>) -> Option<&str> {
    let text = text.map(str::trim)?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
    (!text.is_empty() && text.bytes().all(letter)).then_some(text)
}
