//! The HTTP request of a case.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is asked. With `urls`, requests take turns by weight; otherwise every request goes to the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpRequest {
    /// The method.
    pub method: String,
    /// Header lines in order, added to the generator's own `Host` (which they may replace).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// The body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Whether `{{…}}` in path, header values and body is filled in anew for every request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// Paths, or whole URLs of the same authority, to take turns over.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<UrlEntry>,
    /// A file of such lines: `[METHOD] URL [weight]`, `#` for comments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls_file: Option<PathBuf>,
}

/// Where a body comes from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// As written.
    Text(String),
    /// The content of a file, read once.
    File(PathBuf),
}

/// One of the requests that take turns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlEntry {
    /// Another method than the case's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path with query, or a whole URL.
    pub url: String,
    /// How often it comes, against the others.
    #[serde(default = "one")]
    pub weight: u32,
}

fn one() -> u32 {
    1
}

impl Default for HttpRequest {
    fn default() -> Self {
        Self {
            method: "GET".into(),
            headers: Vec::new(),
            body: None,
            template: false,
            urls: Vec::new(),
            urls_file: None,
        }
    }
}
