//! Log-ins that browsers have begun at the identity provider.
//!
//! Nothing about them is stored: a cookie has the time and a random number, and state, nonce and
//! verifier are MACs over both, made with a secret of the gateway. Any gateway with that secret can
//! complete the log-in, in the browser that has the cookie, within ten minutes. Only used log-ins
//! are remembered, in a set of bounded size.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{constant_time, hmac, rand};
use tollhouse_plugins::code_flow::Attempt;

use crate::call::Call;
use crate::session::{Encryption, Sessions, hex};

/// Maximum time for a log-in at the provider, in seconds.
const AGE_MAX_S: u64 = 600;

/// Number of bytes of a log-in's random number.
const NUMBER_BYTES: usize = 16;

/// Maximum number of used log-ins that are remembered, of about 150 bytes each. Beyond it, the
/// oldest one is forgotten; the provider accepts no code twice in any case.
const USED_MAX: usize = 4_096;

/// Base of the cookie's name.
const COOKIE: &str = "tollhouse_login";

/// Secrets of a log-in, and the address to which the provider sends the browser back.
pub(super) struct PendingLogIn {
    begun_s: u64,
    state: String,
    nonce: String,
    verifier: String,
    redirect_uri: String,
}

impl PendingLogIn {
    /// Begins a log-in. Returns it with the value of the header `Set-Cookie`.
    ///
    /// # Errors
    /// If the system's random number generator is unavailable.
    pub(super) fn begin(
        sessions: &Sessions,
        call: &Call,
        redirect_uri: String,
        now_s: u64,
    ) -> Result<(Self, String), Unspecified> {
        let mut random = [0; NUMBER_BYTES];
        rand::fill(&mut random)?;
        let number = hex(&random);
        let line = line(sessions, call, &format!("{now_s}.{number}"), AGE_MAX_S, &redirect_uri);
        Ok((Self::derive(sessions, now_s, &number, redirect_uri), line))
    }

    /// Returns the log-in with this state, if the browser of a call began it and it has not expired.
    pub(super) fn find(
        sessions: &Sessions,
        call: &Call,
        state: &str,
        redirect_uri: String,
        now_s: u64,
    ) -> Option<Self> {
        let (begun, number) = call.cookie(&sessions.cookie_name(call, COOKIE))?.split_once('.')?;
        let begun_s: u64 = begun.parse().ok()?;
        let is_young = begun_s <= now_s && now_s < begun_s.saturating_add(AGE_MAX_S);
        if !is_young || number.len() != 2 * NUMBER_BYTES {
            return None;
        }
        let pending = Self::derive(sessions, begun_s, number, redirect_uri);
        constant_time::verify_slices_are_equal(pending.state.as_bytes(), state.as_bytes()).ok()?;
        Some(pending)
    }

    /// Returns the value of the `Set-Cookie` header that deletes the cookie.
    pub(super) fn end_line(sessions: &Sessions, call: &Call, redirect_uri: &str) -> String {
        line(sessions, call, "", 0, redirect_uri)
    }

    pub(super) fn attempt(&self) -> Attempt<'_> {
        Attempt {
            redirect_uri: &self.redirect_uri,
            state: &self.state,
            nonce: &self.nonce,
            verifier: &self.verifier,
        }
    }

    fn derive(sessions: &Sessions, begun_s: u64, number: &str, redirect_uri: String) -> Self {
        let key = sessions.log_in_key();
        let derived = |purpose: &str| {
            let text = format!("{purpose} {begun_s} {number}");
            hex(hmac::sign(&key, text.as_bytes()).as_ref())
        };
        let [state, nonce, verifier] = ["state", "nonce", "verifier"].map(derived);
        Self { begun_s, state, nonce, verifier, redirect_uri }
    }
}

/// Returns the line of the cookie. With `Lax`, the browser sends it after the provider has sent the
/// browser back.
fn line(sessions: &Sessions, call: &Call, value: &str, age_s: u64, redirect_uri: &str) -> String {
    let name = sessions.cookie_name(call, COOKIE);
    // A proxy in front may have TLS, although the listener has none.
    let is_secure =
        sessions.encryption() == Encryption::Tls || redirect_uri.starts_with("https://");
    let secure = if is_secure { "; Secure" } else { "" };
    format!("{name}={value}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}")
}

/// Used log-ins, by the time of their beginning, none of which is completed again.
#[derive(Debug, Default)]
pub(crate) struct UsedLogIns(Mutex<BTreeSet<(u64, String)>>);

impl UsedLogIns {
    /// Marks a log-in as used; `false` if it was used before.
    pub(super) fn take(&self, pending: &PendingLogIn, now_s: u64) -> bool {
        let mut used = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those that have expired are refused by their age.
        *used = used.split_off(&(now_s.saturating_sub(AGE_MAX_S), String::new()));
        if used.len() >= USED_MAX {
            used.pop_first();
        }
        used.insert((pending.begun_s, pending.state.clone()))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use hyper::header::{COOKIE as COOKIE_HEADER, HOST};
    use hyper::{HeaderMap, Method};

    use super::*;

    const REDIRECT: &str = "http://127.0.0.1:9180/ui/login";

    fn call(cookie: &str) -> Call {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:9180".parse().expect("a value"));
        headers.insert(COOKIE_HEADER, cookie.parse().expect("a value"));
        let peer = SocketAddr::from(([127, 0, 0, 1], 1));
        Call::new(Method::POST, &"/console/v1/login".parse().expect("a path"), headers, peer)
    }

    #[test]
    fn a_log_in_is_completed_by_the_browser_that_began_it_and_in_time() {
        let sessions = Sessions::new(b"secret", Encryption::Off);
        let begun = PendingLogIn::begin(&sessions, &call(""), REDIRECT.to_owned(), 1_000);
        let (pending, line) = begun.expect("random numbers");
        for part in ["tollhouse_login_9180=", "Path=/", "Max-Age=600", "HttpOnly", "SameSite=Lax"] {
            assert!(line.contains(part), "{part} in {line}");
        }
        let cookie = line.split(';').next().expect("a pair").to_owned();
        let find = |sessions: &Sessions, cookie: &str, state: &str, now_s| {
            PendingLogIn::find(sessions, &call(cookie), state, REDIRECT.to_owned(), now_s)
        };
        let found = find(&sessions, &cookie, &pending.state, 1_599).expect("it is pending");
        assert_eq!((&found.nonce, &found.verifier), (&pending.nonce, &pending.verifier));
        assert!(pending.verifier.len() >= 43 && pending.nonce != pending.state);
        assert!(!cookie.contains(&pending.state) && !cookie.contains(&pending.verifier));
        let other = Sessions::new(b"another", Encryption::Off);
        let later = cookie.replace("=1000.", "=1001.");
        for (sessions, cookie, state, now_s) in [
            (&sessions, &*cookie, &*pending.state, 1_600),
            (&sessions, &cookie, &pending.state, 999),
            (&sessions, &cookie, "", 1_000),
            (&sessions, &cookie, &pending.nonce, 1_000),
            (&sessions, "", &pending.state, 1_000),
            (&sessions, &later, &pending.state, 1_001),
            (&other, &cookie, &pending.state, 1_000),
        ] {
            assert!(find(sessions, cookie, state, now_s).is_none(), "{cookie} {state} {now_s}");
        }
    }

    #[test]
    fn a_log_in_counts_once_and_the_memory_of_used_ones_is_bounded() {
        let sessions = Sessions::new(b"secret", Encryption::Tls);
        let used = UsedLogIns::default();
        let begin = |now_s| {
            let begun = PendingLogIn::begin(&sessions, &call(""), REDIRECT.to_owned(), now_s);
            begun.expect("random numbers")
        };
        let (first, line) = begin(1_000);
        assert!(line.starts_with("__Host-tollhouse_login") && line.ends_with("; Secure"), "{line}");
        assert!(used.take(&first, 1_000) && !used.take(&first, 1_599));
        for _ in 0..USED_MAX + 10 {
            assert!(used.take(&begin(1_001).0, 1_001));
        }
        assert_eq!(used.0.lock().expect("no test panicked").len(), USED_MAX);
        assert!(used.take(&begin(2_000).0, 2_000));
        assert_eq!(used.0.lock().expect("no test panicked").len(), 1);
    }
}
