//! Limit of calls with a wrong key, per address. Calls with a valid key are never limited, because
//! another client behind the same proxy may be guessing keys.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hyper::StatusCode;
use tollhouse_net::failed_logins::client_of;

use crate::auth;
use crate::call::Call;
use crate::options::Options;
use crate::reply::Reply;

/// Maximum number of wrong keys per address and [`WINDOW`]. The number is fairly high, because a
/// client with an outdated key retries, and should get the error about its key.
const CALLS_MAX: u32 = 60;

/// Time over which wrong keys are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Maximum number of addresses for which wrong keys are counted, to bound memory. Further addresses
/// are not limited.
const ADDRESSES_MAX: usize = 4096;

/// Time and number of recent wrong keys, by peer address.
#[derive(Debug, Default)]
pub(crate) struct WrongKeys(Mutex<HashMap<IpAddr, (Instant, u32)>>);

impl WrongKeys {
    /// Counts the call if its key is wrong.
    ///
    /// # Errors
    /// If the key is wrong and its address has exceeded the limit.
    pub(crate) fn check(&self, options: &Options, call: &Call) -> Result<(), Reply> {
        if !auth::shows_wrong_key(options, call) {
            return Ok(());
        }
        if self.count(client_of(call.peer.ip()), Instant::now()) <= CALLS_MAX {
            return Ok(());
        }
        let text = "too many calls with a wrong key from this address; wait a minute";
        Err(Reply::refusal(StatusCode::TOO_MANY_REQUESTS, text))
    }

    /// Counts a wrong key, and returns the number of wrong keys of this address in the current
    /// window.
    fn count(&self, address: IpAddr, now: Instant) -> u32 {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= ADDRESSES_MAX {
            counts.retain(|_, (since, _)| now - *since < WINDOW);
        }
        if counts.len() >= ADDRESSES_MAX && !counts.contains_key(&address) {
            return 1;
        }
        let (since, count) = counts.entry(address).or_insert((now, 0));
        if now - *since >= WINDOW {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_guesses_has_to_wait_and_others_have_not() {
        let keys = WrongKeys::default();
        let address = |last: u8| IpAddr::from([10, 0, 0, last]);
        let start = Instant::now();
        for expected in 1..=CALLS_MAX + 1 {
            assert_eq!(keys.count(address(1), start), expected);
        }
        assert_eq!(keys.count(address(2), start), 1);
        assert_eq!(keys.count(address(1), start + WINDOW), 1);
    }
}
