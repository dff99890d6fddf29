//! Session of a logged-in user and its lifetime. The time is an argument, in seconds since 1970.

use serde::{Deserialize, Serialize};

use super::checks::Claims;

/// Seconds between two updates of the time of last use, because each update sets a cookie.
const NOTE_PAUSE_S: u64 = 60;

/// Data of a session. Field names are short, because they are stored in a cookie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    #[serde(rename = "a")]
    pub(crate) access_token: String,
    /// Expiry of the access token, if known.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub(crate) access_end_s: Option<u64>,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// ID token as signed by the provider.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    pub(crate) id_token: Option<String>,
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub(crate) userinfo: Option<Claims>,
    /// Granted scopes, if the provider reports them.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    /// Time of the login in seconds since 1970.
    #[serde(rename = "c")]
    pub(crate) begun_s: u64,
    /// Time at which the provider last confirmed the user.
    #[serde(rename = "v")]
    pub(crate) verified_s: u64,
    /// Time of the last extension in seconds since 1970.
    #[serde(rename = "p")]
    pub(crate) prolonged_s: u64,
    /// Time of the last use, accurate to a minute.
    #[serde(rename = "l")]
    pub(crate) used_s: u64,
}

/// Lifetimes of sessions in seconds; 0 is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    /// Maximum time without a request of the user, in seconds.
    pub(crate) idle_s: u64,
    /// Maximum time without an extension, in seconds. A request in the last quarter extends the
    /// session.
    pub(crate) rolling_s: u64,
    /// Maximum time since the login, in seconds.
    pub(crate) absolute_s: u64,
}

impl Session {
    /// Whether the session is still valid.
    pub(crate) fn counts(&self, lifetimes: Lifetimes, now_s: u64) -> bool {
        let is_within =
            |since_s: u64, span_s: u64| span_s == 0 || now_s < since_s.saturating_add(span_s);
        is_within(self.used_s, lifetimes.idle_s)
            && is_within(self.prolonged_s, lifetimes.rolling_s)
            && is_within(self.begun_s, lifetimes.absolute_s)
    }

    /// Records a use of the session. Returns whether the session has to be stored again.
    pub(crate) fn touch(&mut self, lifetimes: Lifetimes, now_s: u64) -> bool {
        let pause_s = match lifetimes.idle_s {
            0 => u64::MAX,
            idle_s => NOTE_PAUSE_S.min(idle_s / 4),
        };
        let notes = now_s >= self.used_s.saturating_add(pause_s);
        let quarter_s = lifetimes.rolling_s.div_ceil(4);
        let prolongs = lifetimes.rolling_s > 0
            && now_s.saturating_add(quarter_s)
                >= self.prolonged_s.saturating_add(lifetimes.rolling_s);
        if notes || prolongs {
            self.used_s = now_s;
        }
        if prolongs {
            self.prolonged_s = now_s;
        }
        notes || prolongs
    }

    /// Whether the access token has expired, or will within `leeway_s`.
    pub(crate) fn has_ended(&self, leeway_s: u64, now_s: u64) -> bool {
        self.access_end_s.is_some_and(|end_s| end_s <= now_s.saturating_add(leeway_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_while_it_is_used_and_not_for_ever() {
        let lifetimes = Lifetimes { idle_s: 900, rolling_s: 3_600, absolute_s: 10_000 };
        let mut session = Session::default();
        assert!(session.counts(lifetimes, 899) && !session.counts(lifetimes, 900));
        assert!(!session.touch(lifetimes, 59) && session.touch(lifetimes, 60));
        assert!(session.counts(lifetimes, 959));
        for now_s in (500..9_999).step_by(500) {
            assert!(session.counts(lifetimes, now_s), "{now_s}");
            session.touch(lifetimes, now_s);
        }
        assert!(!session.counts(lifetimes, 10_000));
        let endless = Lifetimes { idle_s: 0, rolling_s: 0, absolute_s: 0 };
        assert!(session.counts(endless, u64::MAX) && !session.touch(endless, 99_999));
    }
}
