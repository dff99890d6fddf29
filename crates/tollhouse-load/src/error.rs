//! Errors that prevent a measurement. Each is one line with cause and remedy, and ends the program
//! with exit code 2. Failures of single requests are counted instead ([`crate::failure`]).

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The target is not a supported URL.
    #[error("target `{target}`: {why}")]
    Target { target: String, why: String },
    #[error("{key}: {why}")]
    Case {
        /// Key within the case, such as `load.pace`.
        key: String,
        why: String,
    },
    /// A file of the case cannot be used.
    #[error("{path}: {why}")]
    File { path: PathBuf, why: String },
    /// The first request, sent before the load, failed.
    #[error("{target} cannot be measured: {why}")]
    Probe {
        target: String,
        /// The failure, with a remedy if one is known.
        why: String,
    },
    /// The machine's limits do not allow the case.
    #[error("{0}")]
    Machine(String),
    /// A basic operation of the operating system failed.
    #[error("{doing}: {error}")]
    System {
        /// Operation that failed, as a phrase such as "finding this program".
        doing: String,
        #[source]
        error: std::io::Error,
    },
    /// A program of the test bed failed.
    #[error(transparent)]
    Testbed(#[from] tollhouse_testbed::Error),
}
