//! Error of a start that failed. Problems of the configuration and of its source stay a list, so
//! that each can be printed; every other failure is one text.

use tollhouse_model::Problems;

/// Why a gateway did not start. Only `Failed` may leave side effects.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("configuration: {0}")]
    Configuration(Problems),
    /// The configuration source cannot be read at all.
    #[error("{name}: {problems}")]
    Resources {
        /// Name of the source, such as the file name.
        name: String,
        problems: Problems,
    },
    /// A step of the start failed.
    #[error("{0:#}")]
    Failed(#[from] anyhow::Error),
}

impl From<std::io::Error> for StartError {
    fn from(error: std::io::Error) -> Self {
        StartError::Failed(error.into())
    }
}
