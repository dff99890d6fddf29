//! Selector of a plugin: its conditions and the plugin's settings for matching requests.

use serde::{Deserialize, Serialize};

use super::{Condition, MatchMode};
use crate::lenient;

/// Selector of a plugin (ShenYu's `SelectorData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    pub plugin_id: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Code of the combination of conditions; see [`Self::mode`].
    #[serde(deserialize_with = "lenient::or_zero")]
    pub match_mode: i64,
    /// Code of the scope; see [`Self::selector_type`].
    #[serde(rename = "type", deserialize_with = "lenient::integer")]
    pub type_code: Option<i64>,
    /// Order among selectors with equal numbers of conditions, ascending.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub sort: i64,
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether matches are logged. The admin's REST interface calls this member `loged`.
    #[serde(alias = "loged", deserialize_with = "lenient::or_false")]
    pub logged: bool,
    /// Whether rules are evaluated; otherwise the plugin applies its default rule.
    #[serde(deserialize_with = "lenient::or_true")]
    pub continued: bool,
    /// JSON text with the plugin's settings.
    pub handle: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub condition_list: Vec<Condition>,
    /// Conditions before the last edit, by which admins find the replaced ones; not used for
    /// matching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_condition_list: Option<Vec<Condition>>,
    /// Whether paths contain variables, in which case ShenYu does not cache matches.
    #[serde(deserialize_with = "lenient::or_false")]
    pub match_restful: bool,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

/// Requests that a selector applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorType {
    /// The selector applies to every request.
    Full,
    /// Matches requests that satisfy the conditions; without conditions, none.
    Custom,
}

impl Selector {
    /// Returns whether all conditions must hold, or any.
    pub const fn mode(&self) -> MatchMode {
        MatchMode::from_code(self.match_mode)
    }

    /// Returns whether the conditions are evaluated.
    pub const fn selector_type(&self) -> SelectorType {
        match self.type_code {
            Some(0) => SelectorType::Full,
            _ => SelectorType::Custom,
        }
    }
}

impl Default for Selector {
    fn default() -> Self {
        Self {
            id: String::new(),
            plugin_id: None,
            plugin_name: String::new(),
            name: String::new(),
            match_mode: 0,
            type_code: None,
            sort: 0,
            enabled: true,
            logged: false,
            continued: true,
            handle: None,
            condition_list: Vec::new(),
            before_condition_list: None,
            match_restful: false,
            namespace_id: None,
        }
    }
}
