//! Limits of ShenYu's admin, each with its reason.

use std::time::Duration;

/// Maximum size of a request body in bytes; the store accepts as much in a transaction.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;

/// Maximum size in bytes of the body of a request that needs no token. Such a body contains a name
/// and a password.
pub(crate) const OPEN_BODY_BYTES_MAX: usize = 16 << 10;

/// Memory budget in bytes for all request bodies being read or answered, including the values built
/// from them.
pub(crate) const BODIES_BYTES_MAX: u64 = 256 << 20;

/// Estimated memory of one JSON value in bytes. The text of a value may have only two bytes.
pub(crate) const VALUE_BYTES: u64 = 80;

/// Maximum number of rows of a page: some megabytes of text.
pub(crate) const PAGE_ROWS_MAX: usize = 10_000;

/// Maximum number of calls in the queue of writes. Further calls wait in their connections.
pub(crate) const CALLS_WAITING_MAX: usize = 1_024;

/// Maximum number of calls written in one commit, so that a thousand clients that register at
/// startup need only a few commits.
pub(crate) const CALLS_PER_COMMIT: usize = 256;

/// Maximum number of attempts at a commit that conflicts with other commits.
pub(crate) const COMMIT_TRIES_MAX: usize = 8;

/// Maximum number of commits that a gateway may lag behind. Beyond it, the gateway receives the
/// whole state again.
pub(crate) const CHANGES_WAITING_MAX: usize = 1_024;

/// Maximum number of gateways that follow with a valid token, over WebSocket or long polling. Each
/// occupies a connection.
pub(crate) const GATEWAYS_MAX: usize = 512;

/// Maximum number of gateways that follow over WebSocket without a token, where none is required.
pub(crate) const STRANGERS_MAX: usize = 512;

/// Maximum number of gateways without a token from one address. Gateways behind NAT share an
/// address.
pub(crate) const STRANGERS_PER_ADDRESS_MAX: usize = 64;

/// Interval of pings to gateways.
pub(crate) const GATEWAY_PING_INTERVAL: Duration = Duration::from_secs(30);

/// Maximum time without a message of a gateway, pongs included. ShenYu's gateways send something
/// every ten seconds.
pub(crate) const GATEWAY_SILENCE_MAX: Duration = Duration::from_secs(90);

/// Maximum time for which a long poll is held, as in ShenYu.
pub(crate) const POLL_TIME: Duration = Duration::from_secs(60);

/// Maximum time that a gateway may leave a message unread.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(30);

/// Maximum size in bytes of a gateway's message, which is a short command or a self-description.
pub(crate) const GATEWAY_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Timeout for the head of a request, and for an idle connection. Java's clients keep idle
/// connections for minutes.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(120);

/// Maximum time for open requests to finish when the listener stops.
pub(crate) const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);

/// Maximum number of concurrent connections, if the limit of open files permits it.
pub(crate) const CONNECTIONS_MAX: usize = 4_096;

/// Maximum number of logins that are processed at once; each costs a thread tens of milliseconds.
pub(crate) const LOGINS_AT_ONCE: usize = 2;

/// Maximum number of logins in the queue: some seconds of work. Further logins are refused.
pub(crate) const LOGINS_WAITING_MAX: usize = 64;

/// Maximum number of upstreams of a selector, because its row must fit into one value of the store.
pub(crate) const UPSTREAMS_MAX: usize = 4_000;

/// Lifetime of a token, as in ShenYu.
pub(crate) const TOKEN_TIME: Duration = Duration::from_secs(24 * 60 * 60);
