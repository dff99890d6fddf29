//! What counts as success, beside the protocol's own rules.

use serde::{Deserialize, Serialize};

/// Checks on every answer. An answer that fails one is a failure of the class `check`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// Statuses that are a success; when empty, 100 to 399.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    /// Take every status for a success; they are counted by status all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_status: bool,
    /// The exact length of the body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// The body must be as long as the first one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_length: bool,
    /// Text that the body must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
    /// A regular expression that the body must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_matches: Option<String>,
    /// A JSON pointer (RFC 6901) and the value that must be there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_json: Option<(String, serde_json::Value)>,
}

impl Checks {
    /// Whether a body has to be kept to be judged.
    pub fn reads_body(&self) -> bool {
        self.body_contains.is_some() || self.body_matches.is_some() || self.body_json.is_some()
    }

    /// Whether a status is a success.
    #[inline]
    pub fn accepts_status(&self, status: u16) -> bool {
        match self.status.as_slice() {
            [] => self.any_status || status < 400,
            wanted => self.any_status || wanted.contains(&status),
        }
    }
}
