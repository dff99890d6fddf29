//! What becomes of a client's connection after an exchange. Who decides is `answer/keep_alive.rs`.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// It waits for the next request.
    KeepAlive,
    /// It closes at once: the client is gone, or must see that the answer broke off.
    Close,
    /// It closes once the client has seen the answer.
    Linger,
}
