//! Parsed request without its body.

use std::net::SocketAddr;
use std::sync::OnceLock;

use hyper::header::{COOKIE, HeaderMap};
use hyper::{Method, Uri};
use percent_encoding::percent_decode_str;
use tollhouse_registry::Metadata;

use crate::arguments::Arguments;

/// Request to the Admin API, with its path split into segments.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub method: Method,
    /// Decoded path segments; empty ones are dropped.
    pub segments: Vec<String>,
    /// Decoded path segments. Unlike in `segments`, an escaped slash does not separate, because
    /// registry names may contain slashes.
    pub whole_segments: Vec<String>,
    pub arguments: Arguments,
    pub headers: HeaderMap,
    pub peer: SocketAddr,
    /// Labels by which policies decide; unset for callers without policies, and for calls that
    /// concern no objects.
    pub object_labels: OnceLock<ObjectLabels>,
}

/// Labels of the objects that a call concerns.
#[derive(Debug, Clone)]
pub(crate) enum ObjectLabels {
    Stored(Metadata),
    /// Labels of a new object, or those of the objects of a list: each object is checked later.
    Later,
}

impl Call {
    pub(crate) fn new(method: Method, uri: &Uri, headers: HeaderMap, peer: SocketAddr) -> Self {
        // Decoded before splitting, so that an escaped slash separates segments too.
        let path = percent_decode_str(uri.path()).decode_utf8_lossy();
        let whole = uri.path().split('/');
        let whole = whole.map(|it| percent_decode_str(it).decode_utf8_lossy().into_owned());
        Self {
            method,
            segments: without_dots(path.split('/').map(str::to_owned)),
            whole_segments: without_dots(whole),
            arguments: Arguments::parse(uri.query().unwrap_or_default()),
            headers,
            peer,
            object_labels: OnceLock::new(),
        }
    }

    /// Returns the value of a header; `None` if it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let lines = self.headers.get_all(COOKIE).iter();
        let mut pairs =
            lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
        pairs.find_map(|pair| {
            let (candidate, value) = pair.trim().split_once('=')?;
            (candidate == name).then_some(value)
        })
    }

    /// Returns the segments after the prefix `start`; `None` if the path has another prefix.
    pub(crate) fn segments_after(&self, start: &[&str]) -> Option<&[String]> {
        let begins = self.segments.len() >= start.len()
            && self.segments.iter().zip(start).all(|(segment, expected)| segment == expected);
        begins.then(|| &self.segments[start.len()..])
    }
}

/// Resolves `.` and `..` segments (RFC 3986 §5.2.4) as nginx does for APISIX, and drops empty ones.
/// Nothing leads above the root.
fn without_dots(segments: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    for segment in segments {
        match segment.as_str() {
            "" | "." => {}
            ".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dots_in_a_path_lead_where_they_say() {
        for (path, expected) in [
            ("/apisix/admin/routes/..", "apisix admin"),
            ("/apisix/admin/routes/../consumers/x", "apisix admin consumers x"),
            ("/apisix/admin/routes/%2e%2e/consumers/./x", "apisix admin consumers x"),
            ("/../../apisix//admin/routes/1.2/", "apisix admin routes 1.2"),
            ("/apisix/admin/routes/...", "apisix admin routes ..."),
        ] {
            let uri: Uri = path.parse().expect("a path");
            let peer = SocketAddr::from(([127, 0, 0, 1], 1));
            let call = Call::new(Method::GET, &uri, HeaderMap::new(), peer);
            assert_eq!(call.segments.join(" "), expected, "{path}");
            assert_eq!(call.whole_segments.join(" "), expected, "{path}");
        }
    }
}
