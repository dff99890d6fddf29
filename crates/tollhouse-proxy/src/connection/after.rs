//! Fate of a client's connection after an exchange, decided by `answer/keep_alive.rs`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// The connection waits for the next request.
    KeepAlive,
    /// The connection closes at once, because the client is gone or must see that the response is
    /// incomplete.
    Close,
    /// The connection closes after the client has read the response.
    Linger,
}
