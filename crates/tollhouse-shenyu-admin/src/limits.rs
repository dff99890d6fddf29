//! The bounds of ShenYu's admin and the reason of each.

use std::time::Duration;

/// Largest body of a request, in bytes: what a store takes in a transaction.
pub(crate) const BODY_BYTES_MAX: usize = 32 << 20;

/// Largest body of a request for which no token is asked: a name and a password.
pub(crate) const OPEN_BODY_BYTES_MAX: usize = 16 << 10;

/// Bytes of all bodies that are being read or answered, with what is made of them.
pub(crate) const BODIES_BYTES_MAX: u64 = 256 << 20;

/// What a value of JSON takes in memory, in bytes; its text may have two.
pub(crate) const VALUE_BYTES: u64 = 80;

/// Rows of a page, at most: some megabytes of text.
pub(crate) const PAGE_ROWS_MAX: usize = 10_000;

/// Calls that wait to be written; more wait in their connections.
pub(crate) const CALLS_WAITING_MAX: usize = 1_024;

/// Calls written in one commit: what a thousand clients send at a start, in a few commits.
pub(crate) const CALLS_PER_COMMIT: usize = 256;

/// How often a commit is tried again that others came before.
pub(crate) const COMMIT_TRIES_MAX: usize = 8;

/// Commits that a gateway may be behind with; one that is further behind gets everything anew.
pub(crate) const CHANGES_WAITING_MAX: usize = 1_024;

/// Gateways that follow over WebSocket or long polling at a time and have shown a token: each holds a connection.
pub(crate) const GATEWAYS_MAX: usize = 512;

/// Those that follow over WebSocket without one, where none is asked for.
pub(crate) const STRANGERS_MAX: usize = 512;

/// Those of them that come from one address: the gateways behind a router that hides their own.
pub(crate) const STRANGERS_PER_ADDRESS_MAX: usize = 64;

/// How often a gateway is asked whether it is there.
pub(crate) const GATEWAY_PING_INTERVAL: Duration = Duration::from_secs(30);

/// How long a gateway may say nothing, not even to that: ShenYu's own say something every ten seconds.
pub(crate) const GATEWAY_SILENCE_MAX: Duration = Duration::from_secs(90);

/// How long a long poll is held, as ShenYu has it.
pub(crate) const POLL_TIME: Duration = Duration::from_secs(60);

/// How long a gateway may leave a message unread.
pub(crate) const STALL_MAX: Duration = Duration::from_secs(30);

/// Bytes of a message from a gateway: texts of a few words, and what it says of itself.
pub(crate) const GATEWAY_MESSAGE_BYTES_MAX: usize = 64 << 10;

/// How long the head of a request may take, and how long a connection may idle between two: Java's clients
/// keep theirs for minutes.
pub(crate) const HEAD_TIME_MAX: Duration = Duration::from_secs(120);

/// How long requests under way may take once the listener has to stop.
pub(crate) const DRAIN_TIME_MAX: Duration = Duration::from_secs(3);

/// Connections at a time, where the limit of open files allows as many.
pub(crate) const CONNECTIONS_MAX: usize = 4_096;

/// Logins that are worked on at a time: each costs a thread tens of milliseconds.
pub(crate) const LOGINS_AT_ONCE: usize = 2;

/// Logins that wait for their turn: some seconds of work. Those beyond are told to ask again.
pub(crate) const LOGINS_WAITING_MAX: usize = 64;

/// Upstreams of one selector: its row has to fit into a value of the store.
pub(crate) const UPSTREAMS_MAX: usize = 4_000;

/// How long a token counts, as ShenYu has it.
pub(crate) const TOKEN_TIME: Duration = Duration::from_secs(24 * 60 * 60);
