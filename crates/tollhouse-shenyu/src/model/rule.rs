//! Rule of a selector: its conditions and the plugin's settings for matching requests.

use serde::{Deserialize, Serialize};

use super::{Condition, MatchMode};
use crate::lenient;

/// Rule of a plugin below a selector (ShenYu's `RuleData`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    #[serde(deserialize_with = "lenient::or_default")]
    pub selector_id: String,
    /// Code of the combination of conditions; see [`Self::mode`].
    #[serde(deserialize_with = "lenient::or_zero")]
    pub match_mode: i64,
    /// Order among rules with equal numbers of conditions, ascending.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub sort: i64,
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether matches are logged; spelled `loged` in JSON.
    #[serde(rename = "loged", alias = "logged", deserialize_with = "lenient::or_false")]
    pub logged: bool,
    /// JSON text with the plugin's settings.
    pub handle: Option<String>,
    #[serde(deserialize_with = "lenient::or_default")]
    pub condition_data_list: Vec<Condition>,
    /// Conditions before the last edit; not used for matching.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_condition_data_list: Option<Vec<Condition>>,
    /// Whether paths contain variables, in which case ShenYu does not cache matches.
    #[serde(deserialize_with = "lenient::or_false")]
    pub match_restful: bool,
    /// Id of the namespace, since ShenYu 2.7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl Rule {
    /// Returns whether all conditions must hold, or any.
    pub const fn mode(&self) -> MatchMode {
        MatchMode::from_code(self.match_mode)
    }
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            id: String::new(),
            name: String::new(),
            plugin_name: String::new(),
            selector_id: String::new(),
            match_mode: 0,
            sort: 0,
            enabled: true,
            logged: false,
            handle: None,
            condition_data_list: Vec::new(),
            before_condition_data_list: None,
            match_restful: false,
            namespace_id: None,
        }
    }
}
