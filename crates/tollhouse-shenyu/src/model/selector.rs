//! A selector: which requests a plugin has to do with.

use serde::{Deserialize, Serialize};

use super::{Condition, MatchMode};
use crate::lenient;

/// `SelectorData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Its id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Its plugin's id.
    pub plugin_id: Option<String>,
    /// Its plugin's name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// The code of [`Self::mode`].
    #[serde(deserialize_with = "lenient::or_zero")]
    pub match_mode: i64,
    /// The code of [`Self::selector_type`].
    #[serde(rename = "type", deserialize_with = "lenient::integer")]
    pub type_code: Option<i64>,
    /// Lower first, among selectors that match as well.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub sort: i64,
    /// Whether it takes part.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether a match is written to the log. The admin's REST interface writes `loged`.
    #[serde(alias = "loged", deserialize_with = "lenient::or_false")]
    pub logged: bool,
    /// Whether rules are looked at; otherwise the plugin runs with its default rule.
    #[serde(deserialize_with = "lenient::or_true")]
    pub continued: bool,
    /// What the plugin does with it: a JSON document, written as text.
    pub handle: Option<String>,
    /// The conditions.
    #[serde(deserialize_with = "lenient::or_default")]
    pub condition_list: Vec<Condition>,
    /// The conditions before the last edit, by which admins find what to replace; never matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_condition_list: Option<Vec<Condition>>,
    /// Whether paths of it hold variables, in which case ShenYu keeps no cache.
    #[serde(deserialize_with = "lenient::or_false")]
    pub match_restful: bool,
    /// Its namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

/// Whether a selector looks at its conditions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorType {
    /// It takes every request.
    Full,
    /// It takes what its conditions take; nothing where it has none.
    Custom,
}

impl Selector {
    /// How its conditions combine.
    pub const fn mode(&self) -> MatchMode {
        MatchMode::from_code(self.match_mode)
    }

    /// Whether it looks at its conditions.
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
