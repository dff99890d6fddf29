//! Rate limit of failed logins by client address, shared by all logins of the process. A client
//! that guesses passwords or keys must wait longer after each failure.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Number of failures without a wait, because users mistype.
const FREE_FAILURES: u32 = 4;

/// Wait after the first failure beyond the free ones; doubles with each further failure.
const WAIT_MIN: Duration = Duration::from_secs(1);

/// Maximum wait. A thousand guesses take nine hours, while a user who mistyped waits half a minute.
const WAIT_MAX: Duration = Duration::from_secs(32);

/// Duration after the last failure for which a client is remembered.
const KEPT: Duration = Duration::from_secs(600);

/// Maximum number of remembered clients; beyond it, the one with the oldest failure is dropped.
const CLIENTS_MAX: usize = 4_096;

/// Recent failed logins by client address.
#[derive(Debug, Default)]
pub struct FailedLogins(Mutex<HashMap<IpAddr, FailureCount>>);

#[derive(Debug, Clone, Copy)]
struct FailureCount {
    count: u32,
    last: Instant,
}

impl FailureCount {
    fn wait(self) -> Duration {
        let Some(doublings) = self.count.checked_sub(FREE_FAILURES + 1) else {
            return Duration::ZERO;
        };
        let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
        WAIT_MIN.saturating_mul(factor).min(WAIT_MAX)
    }
}

impl FailedLogins {
    /// Whether a client may try to log in now.
    pub fn may_try(&self, address: IpAddr) -> bool {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = clients.get(&client_of(address));
        failed.is_none_or(|failed| failed.last.elapsed() >= failed.wait())
    }

    /// Counts a failed login of this address, which lengthens the wait before its next attempt.
    pub fn failed(&self, address: IpAddr) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, failed| failed.last.elapsed() < KEPT);
        let client = client_of(address);
        if clients.len() >= CLIENTS_MAX && !clients.contains_key(&client) {
            let oldest = clients.iter().min_by_key(|(_, failed)| failed.last);
            let oldest = oldest.map(|(client, _)| *client);
            oldest.map(|client| clients.remove(&client));
        }
        let failed =
            clients.entry(client).or_insert(FailureCount { count: 0, last: Instant::now() });
        failed.count = failed.count.saturating_add(1);
        failed.last = Instant::now();
    }

    /// Clears the failures of a client that has logged in.
    pub fn succeeded(&self, address: IpAddr) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.remove(&client_of(address));
    }
}

/// Returns the client that an address belongs to: the IPv4 address itself, or the IPv6 /64 network.
pub fn client_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_doubles_the_wait_up_to_a_bound() {
        let logins = FailedLogins::default();
        let [guesser, other] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("address"));
        for _ in 0..5 {
            assert!(logins.may_try(guesser));
            logins.failed(guesser);
        }
        assert!(!logins.may_try(guesser), "the sixth attempt waits");
        tokio::time::advance(WAIT_MIN).await;
        for seconds in [2, 4, 8, 16, 32, 32, 32] {
            assert!(logins.may_try(guesser), "{seconds}");
            logins.failed(guesser);
            tokio::time::advance(Duration::from_millis(1_000 * seconds - 1)).await;
            assert!(!logins.may_try(guesser), "{seconds}");
            assert!(logins.may_try(other), "others are not held up");
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        logins.succeeded(guesser);
        logins.failed(guesser);
        assert!(logins.may_try(guesser), "who logged in starts anew");
    }

    #[tokio::test(start_paused = true)]
    async fn the_memory_of_failures_is_bounded() {
        let logins = FailedLogins::default();
        for number in 0..=CLIENTS_MAX as u32 {
            logins.failed(IpAddr::from(number.to_be_bytes()));
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let clients = logins.0.lock().expect("whole");
        assert_eq!(clients.len(), CLIENTS_MAX);
        assert!(!clients.contains_key(&IpAddr::from([0, 0, 0, 0])), "the oldest is forgotten");
    }

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_network_of_version_six_is_one_client() {
        for (one, other, is_same) in [
            ("2001:db8::1", "2001:db8::2:3", true),
            ("2001:db8::1", "2001:db8:0:1::1", false),
            ("::ffff:10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
        ] {
            let is = client_of(address(one)) == client_of(address(other));
            assert_eq!(is, is_same, "{one} {other}");
        }
    }
}
