//! Errors that prevent a mock from serving. Each is one line with cause and remedy.

use std::path::PathBuf;

/// Error that prevents a mock from starting.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// The settings contradict each other or the protocols.
    #[error("{key}: {why}")]
    Setting {
        /// Name of the option, such as `latency-spread`.
        key: String,
        why: String,
    },
    #[error("{path}: {why}")]
    File { path: PathBuf, why: String },
    /// The machine does not allow it.
    #[error("{0}")]
    Machine(String),
    /// A basic operation of the operating system failed.
    #[error("{doing}: {error}")]
    System {
        /// Operation that failed, as a phrase such as "opening a socket".
        doing: String,
        #[source]
        error: std::io::Error,
    },
}
