//! Texts that nobody can guess.

use aws_lc_rs::rand;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// 256 bits.
const BYTES: usize = 32;

/// 43 letters that can stand in addresses and cookies; `None` where the system gives no random numbers.
pub(crate) fn token() -> Option<String> {
    let mut bytes = [0; BYTES];
    rand::fill(&mut bytes).ok()?;
    Some(URL_SAFE_NO_PAD.encode(bytes))
}
