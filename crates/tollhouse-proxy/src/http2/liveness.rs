//! Detection of peers that are gone: when to send a PING, and when to give up waiting for its
//! acknowledgement.

use super::session::Session;

/// Payload of the PING frames that test whether a peer is alive.
const PAYLOAD: [u8; 8] = *b"tollhous";
/// Silence with open streams before a PING is sent, in milliseconds. gRPC servers treat more than
/// one PING in five minutes as abuse (gRFC A8).
const SILENCE_MS: u64 = 310_000;
/// Timeout of the acknowledgement in milliseconds; gRPC's default.
const ANSWER_MS: u64 = 20_000;
/// Minimum time in milliseconds between a PING and a next one that is sent only on suspicion.
const SUSPICION_PAUSE_MS: u64 = 10_000;

/// State of the PING frames sent to a peer.
#[derive(Debug, Default)]
pub(super) struct Liveness {
    /// The unacknowledged PING: when it was sent, and the count of reads at that time.
    asked: Option<(u64, u64)>,
    last_asked_ms: Option<u64>,
}

/// Number and time of reads from a peer, which show that it is alive.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signs {
    /// Number of reads that returned bytes.
    pub(super) received: u64,
    /// Time of the last such read, in milliseconds.
    pub(super) received_ms: u64,
    /// Whether streams are open, so that the peer is expected to answer.
    pub(super) is_awaited: bool,
    /// Whether a stream timed out and nothing has been received since it was opened.
    pub(super) is_suspect: bool,
}

/// Action that a liveness check asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    Nothing,
    /// Send a PING frame now.
    Ask,
    /// The peer has not answered a PING and counts as gone.
    Dead,
}

impl Liveness {
    /// Sends a PING to the peer of `session` if one is due.
    pub(super) fn look(&mut self, session: &Session, now_ms: u64) -> Look {
        session.with(|codec, streams| {
            let look = self.look_at(now_ms, streams.signs(codec));
            if look == Look::Ask {
                codec.ping(PAYLOAD);
            }
            look
        })
    }

    /// Decides on the action; after `Ask`, the PING counts as sent.
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
