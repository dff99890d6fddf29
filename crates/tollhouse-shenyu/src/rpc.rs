//! RPC methods, read from metadata, and the conversion of request bodies to their arguments. Used
//! by plugins that call methods instead of forwarding requests.

pub mod dubbo;
pub mod grpc;

/// Returns the trimmed name of a service or method if it contains only letters, digits, `_`, `.`
/// and `$`, which are safe in a path.
fn name(text: Option<&str>) -> Option<&str> {
    let text = text.map(str::trim)?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
    (!text.is_empty() && text.bytes().all(letter)).then_some(text)
}
