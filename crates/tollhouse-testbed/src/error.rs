//! Error type of the test bed.

/// Failure to set up a measurement.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine or a program on it does not allow the measurement.
    #[error("{0}")]
    Machine(String),
    /// An operation of the operating system failed.
    #[error("{doing}: {error}")]
    System {
        /// Failed operation; begins the error message.
        doing: String,
        #[source]
        error: std::io::Error,
    },
}

impl Error {
    /// Returns a function that wraps the error of an operation.
    pub fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        |error| Self::System { doing: doing.into(), error }
    }
}
