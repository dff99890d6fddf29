//! One condition of a selector or a rule, and how several combine.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// `ConditionData`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Where the value stands: `uri`, `header`, `query`, `cookie`, `host`, `ip`, `domain`, `req_method`, `post`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub param_type: String,
    /// How it is compared: `match`, `=`, `regex` and others.
    #[serde(deserialize_with = "lenient::or_default")]
    pub operator: String,
    /// The name of the header, parameter, cookie or field.
    #[serde(deserialize_with = "lenient::text")]
    pub param_name: Option<String>,
    /// What it is compared with.
    #[serde(deserialize_with = "lenient::text")]
    pub param_value: Option<String>,
}

/// How the conditions of one object combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// All must hold; also what an unknown code means.
    And,
    /// One must hold.
    Or,
}

impl MatchMode {
    /// From the code on the wire.
    pub const fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Or,
            _ => Self::And,
        }
    }
}
