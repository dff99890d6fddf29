//! Whether a client's connection goes on behind an answer, and what the head says of it: decided
//! here alone, for answers of nodes, of plugins and of the gateway's own.

use tollhouse_http::Version;

use crate::connection::after::After;
use crate::exchange::Exchange;
use crate::head::response::ConnectionNote;

/// What becomes of the connection behind an answer; `must_close` where the answer itself ends it.
#[inline]
pub(crate) fn after(cx: &Exchange<'_>, must_close: bool) -> After {
    // What the client has not sent yet of its body would be taken for its next request.
    let goes_on = cx.body.is_received()
        && cx.state.head.keep_alive
        && !must_close
        && !cx.worker.is_draining()
        && cx.client.requests < cx.worker.settings.limits.requests_per_connection;
    if goes_on { After::KeepAlive } else { After::Linger }
}

/// What the head says of that to a client that speaks `version`.
#[inline]
pub(crate) fn note(after: After, version: Version) -> ConnectionNote {
    match (after, version) {
        (After::KeepAlive, Version::Http11) => ConnectionNote::None,
        (After::KeepAlive, Version::Http10) => ConnectionNote::KeepAlive,
        (After::Close | After::Linger, _) => ConnectionNote::Close,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_the_versions_own_habit_is_said() {
        for (after, version, expected) in [
            (After::KeepAlive, Version::Http11, ConnectionNote::None),
            (After::KeepAlive, Version::Http10, ConnectionNote::KeepAlive),
            (After::Linger, Version::Http11, ConnectionNote::Close),
            (After::Linger, Version::Http10, ConnectionNote::Close),
            (After::Close, Version::Http11, ConnectionNote::Close),
        ] {
            assert_eq!(note(after, version), expected, "{after:?} {version:?}");
        }
    }
}
