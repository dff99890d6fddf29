//! The HTTP request of a case.

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
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
    /// The version in the request line, for HTTP/1.
    #[serde(skip_serializing_if = "crate::case::is_default")]
    pub version: HttpVersion,
    /// Whether the request line names the whole URL, as proxies want it, instead of the path.
    #[serde(skip_serializing_if = "crate::case::is_default")]
    pub form: RequestForm,
}

/// The version of HTTP/1 that a request announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1: connections are kept unless somebody says otherwise.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/1.0: connections are kept only when both sides say `Connection: keep-alive`, and a body
    /// may end with its connection.
    #[serde(rename = "1.0")]
    Http10,
}

/// What a request line of HTTP/1 names (RFC 9112, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestForm {
    /// Path and query, as servers want it.
    #[default]
    Origin,
    /// The whole URL, as proxies want it.
    Absolute,
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
            version: HttpVersion::default(),
            form: RequestForm::default(),
        }
    }
}

impl HttpRequest {
    /// The header of basic authentication (RFC 7617) for `user:password`.
    pub fn basic_authorization(credentials: &str) -> (String, String) {
        ("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(credentials)))
    }
}
