//! Persistence of a client's connection after a response, and the header that announces it: decided
//! here alone, for responses of nodes, of plugins and of the gateway.

use tollhouse_http::Version;

use crate::connection::after::After;
use crate::exchange::Exchange;
use crate::head::response::ConnectionNote;

/// Whether the connection is kept after a response; `must_close` forces its end.
#[inline]
pub(crate) fn after(cx: &Exchange<'_>, must_close: bool) -> After {
    // The unread rest of a request body would be taken for the next request.
    let goes_on = cx.body.is_received()
        && cx.state.head.keep_alive
        && !must_close
        && !cx.worker.is_draining()
        && cx.client.requests < cx.worker.settings.limits.requests_per_connection;
    if goes_on { After::KeepAlive } else { After::Linger }
}

/// `Connection` header that announces `after` to a client of HTTP `version`.
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
