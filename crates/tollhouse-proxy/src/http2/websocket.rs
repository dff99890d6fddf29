//! WebSocket of an HTTP/2 client to a node that speaks HTTP/1.1 (RFC 8441 §5, RFC 6455 §4). The
//! client sends no key, so the gateway generates one and checks the node's reply.

use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Constant that is hashed after the key (RFC 6455 §1.3).
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// WebSocket handshake with a node, for a client that uses HTTP/2.
#[derive(Debug)]
pub(super) struct Handshake {
    key: String,
}

impl Handshake {
    /// Creates a key of 16 random bytes.
    pub(super) fn new(random: [u64; 2]) -> Self {
        let bytes = random.map(u64::to_le_bytes);
        Self { key: STANDARD.encode(bytes.as_flattened()) }
    }

    pub(super) fn key(&self) -> &[u8] {
        self.key.as_bytes()
    }

    /// Whether `accept`, the node's `Sec-WebSocket-Accept`, matches the key.
    pub(super) fn is_accepted(&self, accept: &[u8]) -> bool {
        let mut context = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        context.update(self.key());
        context.update(GUID);
        STANDARD.encode(context.finish().as_ref()).as_bytes() == accept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Example in RFC 6455 §1.3.
    #[test]
    fn the_example_of_the_specification_is_accepted() {
        let handshake = Handshake { key: "dGhlIHNhbXBsZSBub25jZQ==".to_owned() };
        assert!(handshake.is_accepted(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="));
        assert!(!handshake.is_accepted(b"s3pPLMBiTxaQ9kYGzzhZRbK+xOO="));
        assert!(!handshake.is_accepted(b""));
    }

    #[test]
    fn a_key_is_sixteen_bytes() {
        assert_eq!(STANDARD.decode(Handshake::new([1, 2]).key()).expect("base64").len(), 16);
    }
}
