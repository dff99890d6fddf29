//! Server name (SNI) in a TLS ClientHello, read from the first bytes of a connection without taking
//! part in the handshake (RFC 8446 §4.1.2, §5.1; RFC 6066 §3).
//!
//! Sans-IO. A ClientHello may span several records, as those with post-quantum key shares often do.
//! The bytes are not changed, so that they can be passed on.

/// Maximum length of a ClientHello in bytes, record headers included; equals nginx's limit. A
/// ClientHello with a post-quantum key share has about 2 KB.
pub const HELLO_BYTES_MAX: usize = 16 * 1024;

/// Length of a record header: content type, version, length.
const RECORD_HEAD_BYTES: usize = 5;
/// Length of a handshake header: type, and a length of three bytes.
const HANDSHAKE_HEAD_BYTES: usize = 4;
/// Maximum payload of an unencrypted record in bytes (RFC 8446 §5.1).
const RECORD_PAYLOAD_MAX: usize = 1 << 14;

const CONTENT_HANDSHAKE: u8 = 22;
const HANDSHAKE_CLIENT_HELLO: u8 = 1;
const EXTENSION_SERVER_NAME: u16 = 0;
const NAME_TYPE_HOST: u8 = 0;

/// Maximum length of a host name in bytes (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;

/// Facts of a complete ClientHello.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientHello {
    /// Server name in lower case, without a final dot. `None` if it is missing or is an IP address,
    /// which the extension must not contain.
    pub server_name: Option<String>,
}

/// Why bytes are not a ClientHello.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HelloError {
    /// The bytes do not begin a TLS handshake.
    #[error("not a TLS handshake")]
    NotTls,
    /// A length exceeds the message, or the server name is invalid.
    #[error("malformed ClientHello")]
    Malformed,
    /// The message is longer than [`HELLO_BYTES_MAX`].
    #[error("ClientHello too long")]
    TooLong,
}

/// Parses the ClientHello at the front of `bytes`; returns `None` until it is complete. Bytes are
/// copied only then; before, each call costs a walk over the records.
///
/// # Errors
/// [`HelloError`]. The result does not depend on how the bytes are split.
pub fn parse(bytes: &[u8]) -> Result<Option<ClientHello>, HelloError> {
    // Bytes beyond the limit are ignored, so that the result does not depend on the size of reads.
    let bytes = &bytes[..bytes.len().min(HELLO_BYTES_MAX)];
    let mut head = [0; HANDSHAKE_HEAD_BYTES];
    let mut seen = 0;
    // Unknown until the handshake header has arrived.
    let mut needed = usize::MAX;
    for fragment in Fragments::new(bytes) {
        let fragment = fragment?;
        for (place, byte) in head.iter_mut().skip(seen).zip(fragment) {
            *place = *byte;
        }
        if seen == 0 && fragment.first().is_some_and(|kind| *kind != HANDSHAKE_CLIENT_HELLO) {
            return Err(HelloError::NotTls);
        }
        seen += fragment.len();
        if seen >= HANDSHAKE_HEAD_BYTES {
            let [_, high, middle, low] = head.map(usize::from);
            needed = HANDSHAKE_HEAD_BYTES + (high << 16 | middle << 8 | low);
            if needed > HELLO_BYTES_MAX {
                return Err(HelloError::TooLong);
            }
        }
        if seen >= needed {
            return read(&assemble(bytes, needed)?).map(Some).ok_or(HelloError::Malformed);
        }
    }
    if bytes.len() >= HELLO_BYTES_MAX { Err(HelloError::TooLong) } else { Ok(None) }
}

/// Returns the handshake message without record headers.
fn assemble(bytes: &[u8], needed: usize) -> Result<Vec<u8>, HelloError> {
    let mut message = Vec::with_capacity(needed);
    for fragment in Fragments::new(bytes) {
        message.extend_from_slice(fragment?);
        if message.len() >= needed {
            break;
        }
    }
    message.truncate(needed);
    Ok(message)
}

/// Payloads of the records received so far.
struct Fragments<'a> {
    rest: &'a [u8],
}

impl<'a> Fragments<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn next_fragment(&mut self) -> Result<Option<&'a [u8]>, HelloError> {
        let Some(&content) = self.rest.first() else { return Ok(None) };
        let version = self.rest.get(1);
        if content != CONTENT_HANDSHAKE || version.is_some_and(|major| *major != 3) {
            return Err(HelloError::NotTls);
        }
        let Some(head) = self.rest.get(..RECORD_HEAD_BYTES) else { return Ok(None) };
        let length = usize::from(u16::from_be_bytes([head[3], head[4]]));
        // Handshake fragments must not be empty (RFC 8446 §5.1).
        if length == 0 || length > RECORD_PAYLOAD_MAX {
            return Err(HelloError::Malformed);
        }
        let end = self.rest.len().min(RECORD_HEAD_BYTES + length);
        let fragment = &self.rest[RECORD_HEAD_BYTES..end];
        self.rest = &self.rest[end..];
        Ok(Some(fragment))
    }
}

impl<'a> Iterator for Fragments<'a> {
    type Item = Result<&'a [u8], HelloError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_fragment().transpose()
    }
}

/// Parses the message; `None` if a length is wrong.
fn read(message: &[u8]) -> Option<ClientHello> {
    let mut rest = message.get(HANDSHAKE_HEAD_BYTES..)?;
    // legacy_version, random
    take(&mut rest, 2 + 32)?;
    let session_bytes = usize::from(*take(&mut rest, 1)?.first()?);
    take(&mut rest, session_bytes)?;
    take_long(&mut rest)?;
    let compression_bytes = usize::from(*take(&mut rest, 1)?.first()?);
    take(&mut rest, compression_bytes)?;
    if rest.is_empty() {
        return Some(ClientHello { server_name: None });
    }
    let mut extensions = take_long(&mut rest)?;
    if !rest.is_empty() {
        return None;
    }
    let mut names = None;
    while !extensions.is_empty() {
        let kind = take_number(&mut extensions)?;
        let content = take_long(&mut extensions)?;
        if kind == EXTENSION_SERVER_NAME && names.replace(content).is_some() {
            return None;
        }
    }
    let server_name = match names {
        Some(names) => read_names(names)?,
        None => None,
    };
    Some(ClientHello { server_name })
}

/// Returns the host name of a server name list. The outer `None` means malformed; the inner one
/// means no usable name.
fn read_names(mut content: &[u8]) -> Option<Option<String>> {
    let mut list = take_long(&mut content)?;
    if !content.is_empty() {
        return None;
    }
    let mut host = None;
    while !list.is_empty() {
        let kind = *take(&mut list, 1)?.first()?;
        let name = take_long(&mut list)?;
        if kind == NAME_TYPE_HOST && host.replace(name).is_some() {
            return None;
        }
    }
    let Some(host) = host else { return Some(None) };
    let host = host.strip_suffix(b".").unwrap_or(host);
    let is_name_byte = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._".contains(byte);
    if host.is_empty() || host.len() > NAME_BYTES_MAX {
        return None;
    }
    let text = std::str::from_utf8(host).ok()?;
    if text.parse::<std::net::IpAddr>().is_ok() {
        return Some(None);
    }
    host.iter().all(is_name_byte).then(|| Some(text.to_ascii_lowercase()))
}

fn take<'a>(rest: &mut &'a [u8], bytes: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn take_number(rest: &mut &[u8]) -> Option<u16> {
    let bytes = take(rest, 2)?;
    Some(u16::from_be_bytes([bytes[0], bytes[1]]))
}

/// Takes a field that is preceded by its length in two bytes.
fn take_long<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = usize::from(take_number(rest)?);
    take(rest, length)
}

#[cfg(test)]
mod tests;
