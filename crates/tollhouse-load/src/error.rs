//! What keeps a case from being measured at all. Each is one line that names the cause and the remedy,
//! and ends the program with exit code 2; failures of single requests are counted instead
//! ([`crate::failure`]).

use std::path::PathBuf;

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The target is no URL of ours.
    #[error("target `{target}`: {why}")]
    Target {
        /// As written.
        target: String,
        /// What is wrong with it.
        why: String,
    },
    /// The case contradicts itself.
    #[error("{key}: {why}")]
    Case {
        /// Where in the case, such as `load.pace`.
        key: String,
        /// What is wrong there.
        why: String,
    },
    /// A file of the case cannot be used.
    #[error("{path}: {why}")]
    File {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The first request, sent before the load, failed.
    #[error("{target} cannot be measured: {why}")]
    Probe {
        /// The target.
        target: String,
        /// The failure, with its remedy where one is known.
        why: String,
    },
    /// The machine does not allow what the case asks for.
    #[error("{0}")]
    Machine(String),
    /// The operating system refused something that no case should need.
    #[error("{doing}: {error}")]
    System {
        /// What was being done.
        doing: String,
        /// What the system said.
        #[source]
        error: std::io::Error,
    },
}
