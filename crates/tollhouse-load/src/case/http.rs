//! The HTTP request of a case.

use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as STANDARD;
use serde::{Deserialize, Serialize};

/// Request to send. With `urls`, requests use them in turn by weight; otherwise every request goes
/// to the target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct HttpRequest {
    /// Request method; `GET` by default.
    pub method: String,
    /// Header lines in order. They are added to the generator's own `Host`, which they may replace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<(String, String)>,
    /// Request body; none by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Body>,
    /// Whether `{{…}}` in path, header values and body is expanded anew for every request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub template: bool,
    /// Paths, or whole URLs with one authority, used in turn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub urls: Vec<UrlEntry>,
    /// File with such entries, one a line: `[METHOD] URL [weight]`; `#` begins a comment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub urls_file: Option<PathBuf>,
    /// Version in the request line, for HTTP/1.
    #[serde(skip_serializing_if = "crate::case::is_default")]
    pub version: HttpVersion,
    /// Form of the request target: the path (default), or the whole URL as proxies expect it.
    #[serde(skip_serializing_if = "crate::case::is_default")]
    pub form: RequestForm,
}

/// HTTP/1 version in the request line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum HttpVersion {
    /// HTTP/1.1: connections persist unless a side sends `Connection: close`.
    #[default]
    #[serde(rename = "1.1")]
    Http11,
    /// HTTP/1.0: connections persist only if both sides send `Connection: keep-alive`. The end of
    /// the connection may delimit a body.
    #[serde(rename = "1.0")]
    Http10,
}

/// Form of the request target in HTTP/1 (RFC 9112, section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RequestForm {
    /// Path and query, as servers expect it.
    #[default]
    Origin,
    /// Whole URL, as proxies expect it.
    Absolute,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    Text(String),
    /// Content of a file, read once.
    File(PathBuf),
}

/// Entry of a list of requests used in turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UrlEntry {
    /// Method; by default that of the case.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Path with query, or a whole URL.
    pub url: String,
    /// Relative frequency of this entry among the others; 1 by default.
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
    /// Returns the header of basic authentication (RFC 7617) for `user:password`.
    pub fn basic_authorization(credentials: &str) -> (String, String) {
        ("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(credentials)))
    }
}
