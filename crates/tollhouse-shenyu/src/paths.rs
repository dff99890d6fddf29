//! What `rewrite`, `contextPath` and `redirect` make of a path, by what their rules say.

use regex::Regex;
use serde::Deserialize;

use crate::divide::HandleError;
use crate::{expression, handle, lenient};

/// Bytes of a path that a rewrite may make: more than any node reads.
const PATH_BYTES_MAX: usize = 16 << 10;

/// The share of requests in hundredths that a rule with a percentage is for, where it says none.
const WHOLE_PERCENT: i64 = 100;

/// A rule of `rewrite`.
#[derive(Debug, Clone)]
pub struct RewriteRule {
    pattern: Option<Regex>,
    replacement: Replacement,
    /// For how many of a hundred requests it counts.
    pub percentage: u8,
}

/// A replacement as Java's `replaceAll` has it: `$1` is a group, `\\` takes the next character as it is.
#[derive(Debug, Clone, Default)]
struct Replacement(Vec<Part>);

#[derive(Debug, Clone)]
enum Part {
    Text(String),
    Group(usize),
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RewriteHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    regex: String,
    #[serde(deserialize_with = "lenient::or_default")]
    replace: String,
    #[serde(deserialize_with = "lenient::integer")]
    percentage: Option<i64>,
}

impl RewriteRule {
    /// Reads a rule's handle; without an expression or a replacement it changes nothing.
    ///
    /// # Errors
    /// When it is no JSON object of this shape, or its expression cannot be compiled.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RewriteHandle = handle::read(handle)?;
        let is_set = !handle.regex.is_empty() && !handle.replace.trim().is_empty();
        let pattern = is_set.then(|| expression::compile(&handle.regex)).transpose();
        let pattern = pattern.map_err(|reason| {
            HandleError::Malformed(format!("the regular expression cannot be compiled: {reason}"))
        })?;
        let groups = pattern.as_ref().map_or(0, Regex::captures_len);
        Ok(Self {
            replacement: Replacement::parse(&handle.replace, groups)?,
            pattern,
            percentage: percentage(handle.percentage)?,
        })
    }

    /// The path in the place of `path`; `None` where it stays, or would grow beyond any reader.
    pub fn apply(&self, path: &str) -> Option<String> {
        let pattern = self.pattern.as_ref()?;
        let mut made = String::with_capacity(path.len());
        let mut behind = 0;
        for captures in pattern.captures_iter(path) {
            let whole = captures.get_match();
            made.push_str(&path[behind..whole.start()]);
            for part in &self.replacement.0 {
                match part {
                    Part::Text(text) => made.push_str(text),
                    Part::Group(group) => {
                        made.push_str(captures.get(*group).map_or("", |group| group.as_str()));
                    }
                }
            }
            if made.len() > PATH_BYTES_MAX {
                return None;
            }
            behind = whole.end();
        }
        made.push_str(&path[behind..]);
        Some(made)
    }
}

impl Replacement {
    fn parse(text: &str, groups: usize) -> Result<Self, HandleError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\\' => literal.extend(rest.next()),
                '$' => {
                    let mut group: Option<usize> = None;
                    // As many digits as still name a group.
                    while let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
                        let next = group.unwrap_or(0) * 10 + digit as usize;
                        if group.is_some() && next >= groups {
                            break;
                        }
                        group = Some(next);
                        rest.next();
                    }
                    let group = group.filter(|group| *group < groups).ok_or_else(|| {
                        HandleError::Malformed(format!(
                            "`{text}` names a group that does not exist"
                        ))
                    })?;
                    parts.push(Part::Text(std::mem::take(&mut literal)));
                    parts.push(Part::Group(group));
                }
                other => literal.push(other),
            }
        }
        parts.push(Part::Text(literal));
        Ok(Self(parts))
    }
}

/// A rule of `contextPath`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextPathRule {
    /// What is taken off the path.
    pub context_path: String,
    /// What is put in front of the rest.
    pub add_prefix: String,
    /// What selectors that follow see in the place of the context path; empty for that itself.
    pub rewrite_context_path: String,
    /// For how many of a hundred requests the latter counts.
    pub percentage: u8,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextPathHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    context_path: String,
    #[serde(deserialize_with = "lenient::or_default")]
    add_prefix: String,
    #[serde(deserialize_with = "lenient::boolean")]
    add_prefixed: Option<bool>,
    #[serde(deserialize_with = "lenient::or_default")]
    rewrite_context_path: String,
    #[serde(deserialize_with = "lenient::integer")]
    percentage: Option<i64>,
}

impl ContextPathRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    /// When it is no JSON object of this shape.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: ContextPathHandle = handle::read(handle)?;
        // With `addPrefixed`, the context path itself is what stands in front for nodes.
        let add_prefix = match handle.add_prefixed {
            Some(true) => handle.context_path.clone(),
            _ => handle.add_prefix.trim().to_owned(),
        };
        Ok(Self {
            context_path: handle.context_path.trim().trim_end_matches('/').to_owned(),
            add_prefix,
            rewrite_context_path: handle.rewrite_context_path.trim().to_owned(),
            percentage: percentage(handle.percentage)?,
        })
    }

    /// What nodes are asked for in the place of `path`; `None` where that does not begin with the context
    /// path. ShenYu cuts off as many characters whatever they are.
    pub fn real_path(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&*self.context_path)?;
        if !rest.is_empty() && !rest.starts_with('/') && !self.context_path.is_empty() {
            return None;
        }
        let real = format!("{}{rest}", self.add_prefix);
        Some(if real.starts_with('/') { real } else { format!("/{real}") })
    }
}

/// A rule of `redirect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectRule {
    /// Requests pass.
    Pass,
    /// They begin anew inside of the gateway, with this path.
    Inside(String),
    /// Their clients are sent there.
    Elsewhere {
        /// Where.
        location: String,
        /// With which status.
        status: u16,
    },
}

#[derive(Deserialize, Default)]
#[serde(default)]
pub(crate) struct RedirectHandle {
    #[serde(rename = "redirectURI", deserialize_with = "lenient::or_default")]
    redirect_uri: String,
    #[serde(rename = "httpStatusCode", deserialize_with = "lenient::integer")]
    http_status_code: Option<i64>,
}

/// What `redirect` answers where its rule does not say: 302.
const REDIRECT_STATUS: i64 = 302;

impl RedirectRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    /// When it is no JSON object of this shape, or its status is no redirect.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RedirectHandle = handle::read(handle)?;
        let uri = handle.redirect_uri.trim();
        if uri.is_empty() {
            return Ok(Self::Pass);
        }
        if uri.starts_with('/') {
            return Ok(Self::Inside(uri.to_owned()));
        }
        let status = handle.http_status_code.unwrap_or(REDIRECT_STATUS);
        let (least, most) = (300, 399);
        match u16::try_from(status) {
            Ok(status @ 300..=399) => Ok(Self::Elsewhere { location: uri.to_owned(), status }),
            _ => Err(HandleError::Bounds { member: "httpStatusCode", value: status, least, most }),
        }
    }
}

fn percentage(written: Option<i64>) -> Result<u8, HandleError> {
    let value = written.unwrap_or(WHOLE_PERCENT);
    match u8::try_from(value) {
        Ok(percentage @ 0..=100) => Ok(percentage),
        _ => Err(HandleError::Bounds { member: "percentage", value, least: 0, most: 100 }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rewrite_replaces_all_as_java_does() {
        let cases = [
            (r"/test", r"/api", "/test/a/test", Some("/api/a/api")),
            (r"^/order/(\d+)/(.*)$", r"/v2/$2/$1", "/order/7/items", Some("/v2/items/7")),
            (r"^/a(\d)", r"/b$10", "/a7", Some("/b70")),
            (r"^/a", r"/\$1", "/a", Some("/$1")),
            (r"", r"/x", "/a", None),
            (r"/a", r"", "/a", None),
            (r"^/none", r"/x", "/a", Some("/a")),
        ];
        for (regex, replace, path, expected) in cases {
            let handle = serde_json::json!({"regex": regex, "replace": replace}).to_string();
            let rule = RewriteRule::read(Some(&handle)).unwrap();
            assert_eq!(rule.apply(path).as_deref(), expected, "{handle}");
        }
        for handle in [r#"{"regex":"(","replace":"/x"}"#, r#"{"regex":"a","replace":"$1"}"#, "[]"] {
            assert!(RewriteRule::read(Some(handle)).is_err(), "{handle}");
        }
    }

    #[test]
    fn a_rewrite_cannot_make_a_path_of_any_length() {
        let replace = "/".repeat(200);
        let handle = serde_json::json!({"regex": "a", "replace": replace}).to_string();
        let rule = RewriteRule::read(Some(&handle)).unwrap();
        assert_eq!(rule.apply(&"a".repeat(1000)), None);
    }

    #[test]
    fn context_paths_are_taken_off_and_prefixes_put_in_front() {
        let cases = [
            (r#"{"contextPath":"/order"}"#, "/order/findById", Some("/findById")),
            (r#"{"contextPath":"/order"}"#, "/order", Some("/")),
            (r#"{"contextPath":"/order","addPrefix":"/v1"}"#, "/order/a", Some("/v1/a")),
            (r#"{"contextPath":"/order","addPrefixed":true}"#, "/order/a", Some("/order/a")),
            (r#"{"contextPath":"/order"}"#, "/orders/a", None),
            (r#"{"contextPath":"/order"}"#, "/o", None),
            (r#"{"addPrefix":"/v1"}"#, "/a", Some("/v1/a")),
        ];
        for (handle, path, expected) in cases {
            let rule = ContextPathRule::read(Some(handle)).unwrap();
            assert_eq!(rule.real_path(path).as_deref(), expected, "{handle}");
        }
        assert!(ContextPathRule::read(Some(r#"{"percentage":101}"#)).is_err());
    }

    #[test]
    fn redirects_stay_inside_or_lead_elsewhere() {
        let elsewhere = |status| RedirectRule::Elsewhere { location: "http://b/".into(), status };
        let cases = [
            (None, Ok(RedirectRule::Pass)),
            (Some(r#"{"redirectURI":" "}"#), Ok(RedirectRule::Pass)),
            (Some(r#"{"redirectURI":"/a"}"#), Ok(RedirectRule::Inside("/a".into()))),
            (Some(r#"{"redirectURI":"http://b/"}"#), Ok(elsewhere(302))),
            (Some(r#"{"redirectURI":"http://b/","httpStatusCode":"308"}"#), Ok(elsewhere(308))),
        ];
        for (handle, expected) in cases {
            assert_eq!(RedirectRule::read(handle), expected, "{handle:?}");
        }
        let bad = r#"{"redirectURI":"http://b/","httpStatusCode":200}"#;
        assert!(RedirectRule::read(Some(bad)).is_err());
    }
}
