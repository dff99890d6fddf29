//! Who has logged in, and for how long that counts. Time is an argument, in seconds since 1970.

use serde::{Deserialize, Serialize};

use super::checks::Claims;

/// Seconds between two notes of a session's use: each is a cookie with the answer.
const NOTE_PAUSE_S: u64 = 60;

/// What is known of a user. The names are short, since they stand in a cookie.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Session {
    #[serde(rename = "a")]
    pub(crate) access_token: String,
    /// When the access token ends, where that is known.
    #[serde(rename = "e", skip_serializing_if = "Option::is_none")]
    pub(crate) access_end_s: Option<u64>,
    #[serde(rename = "r", skip_serializing_if = "Option::is_none")]
    pub(crate) refresh_token: Option<String>,
    /// As it was signed.
    #[serde(rename = "i", skip_serializing_if = "Option::is_none")]
    pub(crate) id_token: Option<String>,
    #[serde(rename = "u", skip_serializing_if = "Option::is_none")]
    pub(crate) userinfo: Option<Claims>,
    /// What was granted, where the provider has said so.
    #[serde(rename = "s", skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    /// When the user logged in.
    #[serde(rename = "c")]
    pub(crate) begun_s: u64,
    /// When the provider was last asked who the user is.
    #[serde(rename = "v")]
    pub(crate) verified_s: u64,
    /// When the session was last prolonged.
    #[serde(rename = "p")]
    pub(crate) prolonged_s: u64,
    /// When it was last used, to a minute.
    #[serde(rename = "l")]
    pub(crate) used_s: u64,
}

/// How long sessions count, in seconds; 0 is for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lifetimes {
    /// Without being used.
    pub(crate) idle_s: u64,
    /// Since it was prolonged, which use does in the last quarter.
    pub(crate) rolling_s: u64,
    /// Since the log-in.
    pub(crate) absolute_s: u64,
}

impl Session {
    /// Whether it still counts.
    pub(crate) fn counts(&self, lifetimes: Lifetimes, now_s: u64) -> bool {
        let is_within =
            |since_s: u64, span_s: u64| span_s == 0 || now_s < since_s.saturating_add(span_s);
        is_within(self.used_s, lifetimes.idle_s)
            && is_within(self.prolonged_s, lifetimes.rolling_s)
            && is_within(self.begun_s, lifetimes.absolute_s)
    }

    /// Notes that it is used; whether it has to be written anew.
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

    /// Whether its access token has ended, or does within `leeway_s`.
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
