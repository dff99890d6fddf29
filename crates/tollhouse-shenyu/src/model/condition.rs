//! Condition of a selector or rule, and the combination of several.

use serde::{Deserialize, Serialize};

use crate::lenient;

/// Condition of a selector or rule (ShenYu's `ConditionData`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// Source of the tested value: `uri`, `header`, `query`, `cookie`, `host`, `ip`, `domain`,
    /// `req_method`, `post`.
    #[serde(deserialize_with = "lenient::or_default")]
    pub param_type: String,
    /// Comparison: `match`, `=`, `regex` and others.
    #[serde(deserialize_with = "lenient::or_default")]
    pub operator: String,
    /// Name of the header, parameter, cookie or field.
    #[serde(deserialize_with = "lenient::text")]
    pub param_name: Option<String>,
    #[serde(deserialize_with = "lenient::text")]
    pub param_value: Option<String>,
}

/// Number of an object's conditions that must hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchMode {
    /// All must hold; also the meaning of unknown codes.
    And,
    /// At least one condition must hold.
    Or,
}

impl MatchMode {
    /// Converts the code in ShenYu's objects.
    pub const fn from_code(code: i64) -> Self {
        match code {
            1 => Self::Or,
            _ => Self::And,
        }
    }
}
