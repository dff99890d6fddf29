//! A place beside an object for its encoded form: made at most once, shared by all who ask.

use std::sync::OnceLock;

use bytes::Bytes;

/// The form in which a dialect sends an object. The core neither makes nor reads it; a copy of the
/// object, which is about to be changed, starts without one.
#[derive(Default)]
pub struct Encoded(OnceLock<Bytes>);

impl Encoded {
    /// The encoded form; `encode` makes it if nobody has yet.
    pub fn get_or_encode(&self, encode: impl FnOnce() -> Bytes) -> &Bytes {
        self.0.get_or_init(encode)
    }

    /// The encoded form, if it was made.
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
