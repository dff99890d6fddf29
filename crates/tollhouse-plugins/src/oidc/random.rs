//! Unpredictable texts.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Length of random values in bytes: 256 bits.
const BYTES: usize = 32;

/// Returns 43 characters that are valid in URLs and cookies; `None` if the system's random number
/// generator fails.
pub(crate) fn token() -> Option<String> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}

/// Returns a random number of 128 bits, for servers and clients that expect decimal digits; `None`
/// if the system's random number generator fails.
pub(crate) fn number() -> Option<String> {
    let mut bytes = [0; 16];
    rand::fill(&mut bytes).ok()?;
    Some(u128::from_le_bytes(bytes).to_string())
}
