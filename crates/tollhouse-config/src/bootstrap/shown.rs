//! The settings for display: each key with value and default, with secrets masked. The origin of a
//! value is part of `Loaded`.

use super::Bootstrap;
use super::keys::KEYS;

/// Key of the bootstrap configuration with its value, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingView {
    /// Name as in the file, with dots between levels.
    pub name: &'static str,
    pub value: String,
    pub default: String,
    /// Description of valid values.
    pub takes: String,
    pub doc: &'static str,
    /// Name of the environment variable that overrides the setting.
    pub variable: String,
}

impl Bootstrap {
    /// Returns all settings, in the order of the manual.
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
