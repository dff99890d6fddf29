//! What keeps a mock from serving. Each is one line that names the cause and the remedy.

use std::path::PathBuf;

/// Why a mock cannot start.
#[derive(Debug, thiserror::Error)]
pub enum MockError {
    /// Settings contradict each other or the protocols.
    #[error("{key}: {why}")]
    Setting {
        /// The option, such as `latency-spread`.
        key: String,
        /// What is wrong there.
        why: String,
    },
    /// A file cannot be used.
    #[error("{path}: {why}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The machine does not allow it.
    #[error("{0}")]
    Machine(String),
    /// The operating system refused something that no behaviour should need.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}
