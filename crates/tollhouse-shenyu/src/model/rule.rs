//! A rule: which requests of its selector the plugin serves, and how.

use serde::{Deserialize, Serialize};

use super::{Condition, MatchMode};
use crate::lenient;

/// `RuleData`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    /// Its id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub id: String,
    /// Its name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub name: String,
    /// Its plugin's name.
    #[serde(deserialize_with = "lenient::or_default")]
    pub plugin_name: String,
    /// Its selector's id.
    #[serde(deserialize_with = "lenient::or_default")]
    pub selector_id: String,
    /// The code of [`Self::mode`].
    #[serde(deserialize_with = "lenient::or_zero")]
    pub match_mode: i64,
    /// Lower first, among rules that match as well.
    #[serde(deserialize_with = "lenient::or_zero")]
    pub sort: i64,
    /// Whether it takes part.
    #[serde(deserialize_with = "lenient::or_true")]
    pub enabled: bool,
    /// Whether a match is written to the log; `loged` on the wire.
    #[serde(rename = "loged", alias = "logged", deserialize_with = "lenient::or_false")]
    pub logged: bool,
    /// What the plugin does: a JSON document, written as text.
    pub handle: Option<String>,
    /// The conditions.
    #[serde(deserialize_with = "lenient::or_default")]
    pub condition_data_list: Vec<Condition>,
    /// The conditions before the last edit; never matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub before_condition_data_list: Option<Vec<Condition>>,
    /// Whether paths of it hold variables, in which case ShenYu keeps no cache.
    #[serde(deserialize_with = "lenient::or_false")]
    pub match_restful: bool,
    /// Its namespace (2.7).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace_id: Option<String>,
}

impl Rule {
    /// How its conditions combine.
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
