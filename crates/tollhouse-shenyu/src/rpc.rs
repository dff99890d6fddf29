//! What plugins that call methods instead of forwarding requests know of a method: its names, and what its
//! metadata say beyond them; and how a body becomes what the method is called with.

pub mod dubbo;
pub mod grpc;

/// A name of a service or method: what can stand in a path.
fn name(text: Option<&str>) -> Option<&str> {
    let text = text.map(str::trim)?;
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte);
    (!text.is_empty() && text.bytes().all(letter)).then_some(text)
}
