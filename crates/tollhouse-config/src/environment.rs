//! Secrets that confs refer to as `$env://NAME`, out of the environment of this process.
//!
//! What references look like and how they are put into a conf is the model's business.

use tollhouse_model::secret::EnvironmentSource;

/// Answers references to variables of the environment.
pub type EnvironmentSecrets = EnvironmentSource<fn(&str) -> Option<String>>;

/// Answers out of the environment of this process, which does not change while it runs.
pub fn environment_secrets() -> EnvironmentSecrets {
    EnvironmentSource::new(|name| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use tollhouse_model::secret::{SecretRef, SecretSource};

    use super::*;

    #[test]
    fn variables_of_the_process_answer() {
        let fetch = |text: &str| {
            let reference = SecretRef::parse(text).expect("a reference");
            environment_secrets().fetch(&reference)
        };
        // Cargo sets it for every test.
        assert_eq!(fetch("$env://CARGO_PKG_NAME").as_deref(), Some("tollhouse-config"));
        assert_eq!(fetch("$ENV://TOLLHOUSE_NOT_SET_ANYWHERE"), None);
        assert_eq!(fetch("$secret://vault/1/CARGO_PKG_NAME"), None);
    }
}
