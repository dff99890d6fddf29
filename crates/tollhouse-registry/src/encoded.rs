//! Cache for the encoded form of an object: computed at most once, shared by all readers.

use std::sync::OnceLock;

use bytes::Bytes;

/// Cached bytes in the form that a dialect sends. The core neither writes nor reads them. A clone
/// starts empty, because objects are cloned only to be changed.
#[derive(Default)]
pub struct Encoded(OnceLock<Bytes>);

impl Encoded {
    /// Returns the encoded form; calls `encode` if it is not cached.
    pub fn get_or_encode(&self, encode: impl FnOnce() -> Bytes) -> &Bytes {
        self.0.get_or_init(encode)
    }

    /// Returns the encoded form if it is cached.
    pub fn get(&self) -> Option<&Bytes> {
        self.0.get()
    }
}

impl Clone for Encoded {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Encoded {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Encoded({:?} bytes)", self.0.get().map(Bytes::len))
    }
}
