//! Whether a silent peer is still there: when it is asked by a PING, and when it is given up.

use super::session::Session;

/// What the PING carries.
const PAYLOAD: [u8; 8] = *b"tollhous";
/// Silence with streams open before the peer is asked, in milliseconds. Servers of gRPC take more than
/// one PING in five minutes for an attack (gRFC A8).
const SILENCE_MS: u64 = 310_000;
/// How long its answer may take, in milliseconds; gRPC's own default.
const ANSWER_MS: u64 = 20_000;
/// How long after a question the next one waits that only a suspicion gives cause for.
const SUSPICION_PAUSE_MS: u64 = 10_000;

/// The questions that a peer was asked.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// The one that waits for an answer: when it was asked, and how often anything had come by then.
    asked: Option<(u64, u64)>,
    last_asked_ms: Option<u64>,
}

/// What is known of a peer's side.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signs {
    /// How often anything has come.
    pub(super) received: u64,
    /// When it came last.
    pub(super) received_ms: u64,
    /// Whether streams wait for it.
    pub(super) is_awaited: bool,
    /// Whether somebody has waited in vain, and nothing had come meanwhile.
    pub(super) is_suspect: bool,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Nothing,
    /// Send a PING.
    Ask,
    /// It is gone.
    Dead,
}

impl Liveness {
    /// Asks the peer of `session` where it is time to.
    pub(super) fn look(&mut self, session: &Session, now_ms: u64) -> Look {
        let look = self.look_at(now_ms, session.signs());
        if look == Look::Ask {
            session.with_codec(|codec| codec.ping(PAYLOAD));
        }
        look
    }

    /// Looks at what is known; `Ask` counts as done.
    fn look_at(&mut self, now_ms: u64, signs: Signs) -> Look {
        if let Some((asked_ms, received)) = self.asked {
            if signs.received != received {
                self.asked = None;
            } else if now_ms.saturating_sub(asked_ms) >= ANSWER_MS {
                return Look::Dead;
            } else {
                return Look::Nothing;
            }
        }
        let since = |then_ms: u64| now_ms.saturating_sub(then_ms);
        let is_rested =
            self.last_asked_ms.is_none_or(|then_ms| since(then_ms) >= SUSPICION_PAUSE_MS);
        let is_silent = signs.is_awaited && since(signs.received_ms) >= SILENCE_MS;
        if is_silent || (signs.is_suspect && is_rested) {
            self.asked = Some((now_ms, signs.received));
            self.last_asked_ms = Some(now_ms);
            return Look::Ask;
        }
        Look::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn silent(received: u64, received_ms: u64) -> Signs {
        Signs { received, received_ms, is_awaited: true, is_suspect: false }
    }

    #[test]
    fn a_silent_peer_is_asked_once_and_given_up_where_nothing_comes() {
        let mut liveness = Liveness::default();
        assert_eq!(liveness.look_at(300_000, silent(1, 0)), Look::Nothing);
        assert_eq!(liveness.look_at(310_000, silent(1, 0)), Look::Ask);
        assert_eq!(liveness.look_at(329_999, silent(1, 0)), Look::Nothing);
        assert_eq!(liveness.look_at(330_000, silent(1, 0)), Look::Dead);
    }

    #[test]
    fn anything_that_comes_is_an_answer() {
        let mut liveness = Liveness::default();
        assert_eq!(liveness.look_at(310_000, silent(1, 0)), Look::Ask);
        assert_eq!(liveness.look_at(330_000, silent(2, 310_000)), Look::Nothing);
        assert_eq!(liveness.look_at(620_000, silent(2, 310_000)), Look::Ask);
    }

    #[test]
    fn nobody_is_asked_while_nothing_is_awaited() {
        let signs = Signs { is_awaited: false, ..silent(1, 0) };
        assert_eq!(Liveness::default().look_at(1 << 40, signs), Look::Nothing);
    }

    #[test]
    fn a_suspicion_asks_at_once_but_not_often() {
        let mut liveness = Liveness::default();
        let suspect = |received| Signs { is_suspect: true, ..silent(received, 0) };
        assert_eq!(liveness.look_at(1000, suspect(1)), Look::Ask);
        assert_eq!(liveness.look_at(1100, suspect(2)), Look::Nothing);
        assert_eq!(liveness.look_at(11_000, suspect(2)), Look::Ask);
    }
}
