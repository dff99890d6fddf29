//! What keeps a gateway from starting.

use tollhouse_model::Problems;

/// What keeps a gateway from starting. Only in the last case was anything tried.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The bootstrap configuration cannot be used.
    #[error("configuration: {0}")]
    Configuration(Problems),
    /// What holds the resources cannot be read at all.
    #[error("{name}: {problems}")]
    Resources {
        /// What holds them, such as the name of the file.
        name: String,
        /// What is wrong with it.
        problems: Problems,
    },
    /// It was tried, and failed.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        StartError::Failed(error.into())
    }
}
