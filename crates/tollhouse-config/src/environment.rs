//! Secrets in environment variables, to which plugin configurations refer as `$env://NAME`.
//!
//! Objects come from operators, files and shared stores, while the environment also contains the
//! gateway's own secrets. Only variables listed in `secrets.env` of the bootstrap file are read,
//! and never those of the gateway's own settings. References are parsed and replaced in
//! `tollhouse-model`.

use tollhouse_model::secret::{EnvironmentSource, SecretRef, SecretSource};

/// Prefix of the variables that override settings, which include keys and passwords.
const OWN_PREFIX: &str = "TOLLHOUSE_";

/// Source of secrets that reads only the listed environment variables.
pub struct EnvironmentSecrets<F> {
    listed: Vec<String>,
    source: EnvironmentSource<F>,
}

impl<F: Fn(&str) -> Option<String>> EnvironmentSecrets<F> {
    /// Reads the `listed` names with `lookup`; a name that ends with `*` allows every name with
    /// that prefix.
    pub fn new(listed: &[String], lookup: F) -> Self {
        Self { listed: listed.to_vec(), source: EnvironmentSource::new(lookup) }
    }

    /// Returns the value of a variable if it is listed.
    pub fn variable(&self, name: &str) -> Option<String> {
        self.fetch(&SecretRef::Environment { name: name.to_owned(), json_key: None })
    }

    fn lists(&self, name: &str) -> bool {
        let is_listed = |entry: &String| match entry.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == entry,
        };
        !is_own(name) && self.listed.iter().any(is_listed)
    }
}

/// Whether a name or prefix belongs to the gateway's own settings.
pub(crate) fn is_own(name: &str) -> bool {
    name.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX))
}

impl<F: Fn(&str) -> Option<String>> SecretSource for EnvironmentSecrets<F> {
    fn fetch(&self, reference: &SecretRef) -> Option<String> {
        if self.may_read(reference) { self.source.fetch(reference) } else { None }
    }

    fn may_read(&self, reference: &SecretRef) -> bool {
        match reference {
            SecretRef::Environment { name, .. } => self.lists(name),
            SecretRef::Keeper { .. } | SecretRef::File { .. } => true,
        }
    }
}

/// Reads the environment of this process, which does not change at runtime.
pub fn environment_secrets(
    listed: &[String],
) -> EnvironmentSecrets<impl Fn(&str) -> Option<String> + use<>> {
    EnvironmentSecrets::new(listed, |name: &str| std::env::var(name).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetch(listed: &[&str], text: &str) -> Option<String> {
        let listed: Vec<String> = listed.iter().map(|name| (*name).to_owned()).collect();
        let source =
            EnvironmentSecrets::new(&listed, |name: &str| Some(format!("value of {name}")));
        source.fetch(&SecretRef::parse(text).expect("a reference"))
    }

    #[test]
    fn variables_of_the_process_answer_once_they_are_listed() {
        let reference = SecretRef::parse("$env://CARGO_PKG_NAME").expect("a reference");
        // Cargo sets this variable for every test.
        let listed = environment_secrets(&["CARGO_PKG_NAME".to_owned()]);
        assert_eq!(listed.fetch(&reference).as_deref(), Some("tollhouse-config"));
        let unlisted = environment_secrets(&[]);
        assert_eq!((unlisted.fetch(&reference), unlisted.may_read(&reference)), (None, false));
    }

    #[test]
    fn only_listed_names_are_read_and_never_those_of_settings() {
        for (listed, reference, is_read) in [
            (&["VAULT_TOKEN"][..], "$env://VAULT_TOKEN", true),
            (&["VAULT_TOKEN"], "$ENV://VAULT_TOKEN_2", false),
            (&["VAULT_TOKEN"], "$env://HOME", false),
            (&["SECRET_*"], "$env://SECRET_A", true),
            (&["SECRET_*"], "$env://SECRETS", false),
            (&["*"], "$env://HOME", true),
            (&["*"], "$env://TOLLHOUSE_ADMIN_KEY", false),
            (&["TOLLHOUSE_ADMIN_KEY"], "$env://TOLLHOUSE_ADMIN_KEY", false),
            (&[], "$env://HOME", false),
        ] {
            assert_eq!(fetch(listed, reference).is_some(), is_read, "{listed:?} {reference}");
        }
        assert_eq!(fetch(&["*"], "$secret://vault/1/HOME"), None);
    }
}
