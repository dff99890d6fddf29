//! Success conditions beyond the protocol's own rules.

use serde::{Deserialize, Serialize};

/// Checks on every response. A response that fails one is counted as a failure of the class
/// `check`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Checks {
    /// Statuses that count as success; if empty, 100 to 399.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status: Vec<u16>,
    /// Counts every status as success. Responses are still counted by status.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub any_status: bool,
    /// Exact length of the body in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_bytes: Option<u64>,
    /// Requires every body to have the length of the first one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub same_length: bool,
    /// Text that the body must contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_contains: Option<String>,
    /// Regular expression that the body must match.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_matches: Option<String>,
    /// JSON pointer (RFC 6901) and the value expected there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body_json: Option<(String, serde_json::Value)>,
}

impl Checks {
    /// Whether a check needs the body, so that it must be buffered.
    pub fn reads_body(&self) -> bool {
        self.body_contains.is_some() || self.body_matches.is_some() || self.body_json.is_some()
    }

    /// Whether a status counts as success.
    #[inline]
    pub fn accepts_status(&self, status: u16) -> bool {
        match self.status.as_slice() {
            [] => self.any_status || status < 400,
            wanted => self.any_status || wanted.contains(&status),
        }
    }
}
