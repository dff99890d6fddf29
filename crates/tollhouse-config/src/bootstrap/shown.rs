//! The settings as they are shown to people: each key with its value, secrets starred, and what it would be by itself.
//! Where a value came from is told by what loads it.

use super::Bootstrap;
use super::keys::KEYS;

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingView {
    /// As in the file, with dots between levels.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it is where nobody gives one.
    pub default: String,
    /// What it takes.
    pub takes: String,
    /// What it means.
    pub doc: &'static str,
    /// The variable that overrides it.
    pub variable: String,
}

impl Bootstrap {
    /// All settings, in the order in which they are documented.
    pub fn setting_views(&self) -> Vec<SettingView> {
        let defaults = Self::default();
        let shown = KEYS.iter().map(|key| SettingView {
            name: key.name,
            value: (key.show)(self),
            default: (key.show)(&defaults),
            takes: (key.takes)(),
            doc: key.doc,
            variable: key.variable(),
        });
        shown.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bootstrap::Secret;

    #[test]
    fn values_are_shown_beside_their_defaults_and_secrets_are_not() {
        let mut bootstrap = Bootstrap::default();
        bootstrap.admin.key = Some(Secret::new("a-secret-key"));
        let shown = bootstrap.setting_views();
        assert!(shown.iter().all(|one| !one.value.contains("a-secret-key")));
        let key = shown.iter().find(|one| one.name == "admin.key").expect("there is one");
        assert_ne!(key.value, key.default);
    }
}
