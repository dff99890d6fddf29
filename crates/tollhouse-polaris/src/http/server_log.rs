//! Log of the process, whose level operators read and change.

/// Log of the process.
pub trait ServerLog: Send + Sync {
    /// Returns the filter in effect.
    fn level(&self) -> String;

    /// Changes the filter for a limited time.
    ///
    /// # Errors
    /// If the filter is invalid.
    fn set_level(&self, level: &str) -> Result<(), String>;
}
