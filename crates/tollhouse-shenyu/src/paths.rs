//! Changes of paths by the rules of `rewrite`, `contextPath` and `redirect`.

use regex::Regex;
use serde::Deserialize;

use crate::divide::HandleError;
use crate::{expression, handle, lenient};

/// Maximum length in bytes of a path that a rewrite may produce.
const PATH_BYTES_MAX: usize = 16 << 10;

/// Percentage of requests by default: all.
const WHOLE_PERCENT: i64 = 100;

/// Rule of the plugin `rewrite`.
#[derive(Debug, Clone)]
pub struct RewriteRule {
    pattern: Option<Regex>,
    replacement: Replacement,
    /// Percentage of requests that the rule applies to.
    pub percentage: u8,
    /// Whether the RPC type is determined by the metadata of the new path.
    pub rewrites_metadata: bool,
}

/// Replacement text with groups in the syntax of Java's `replaceAll` (`$1`, and `\\` before a
/// literal character), or with template variables (`{name}`).
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
    #[serde(rename = "rewriteMetaData", deserialize_with = "lenient::or_false")]
    rewrite_metadata: bool,
}

impl RewriteRule {
    /// Reads a rule's handle. Without an expression or a replacement the rule changes nothing.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or its expression or replacement is invalid.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: RewriteHandle = handle::read(handle)?;
        let is_set = !handle.regex.trim().is_empty() && !handle.replace.trim().is_empty();
        let (pattern, replacement) = match is_set {
            false => (None, Replacement::default()),
            true => Self::compile(&handle.regex, &handle.replace).map(|(p, r)| (Some(p), r))?,
        };
        Ok(Self {
            pattern,
            replacement,
            percentage: percentage(handle.percentage)?,
            rewrites_metadata: handle.rewrite_metadata,
        })
    }

    /// Compiles expression and replacement. A `{` in the replacement makes the expression a
    /// template.
    fn compile(regex: &str, replace: &str) -> Result<(Regex, Replacement), HandleError> {
        let (source, variables) = match replace.contains('{') {
            true => template(regex)?,
            false => (regex.to_owned(), Vec::new()),
        };
        let pattern = expression::compile(&source).map_err(|reason| {
            HandleError::Malformed(format!("the regular expression cannot be compiled: {reason}"))
        })?;
        let replacement = match variables.is_empty() {
            true => Replacement::parse(replace, pattern.captures_len())?,
            false => Replacement::with_variables(replace, &variables)?,
        };
        Ok((pattern, replacement))
    }

    /// Returns the rewritten path; `None` if the rule changes nothing or the new path would be too
    /// long.
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

/// Converts a template such as `/order/{id}/{item}` to a regular expression, and returns the names
/// of its variables. A variable matches one segment, or at the end of the template the rest of the
/// path.
fn template(text: &str) -> Result<(String, Vec<&str>), HandleError> {
    let text = text.trim().trim_start_matches('^').trim_end_matches('$');
    let (mut source, mut names, mut rest) = ("^".to_owned(), Vec::new(), text);
    while let Some((literal, behind)) = rest.split_once('{') {
        let Some((name, behind)) = behind.split_once('}') else {
            return Err(HandleError::Malformed(format!("a `{{` of `{text}` is not closed")));
        };
        source.push_str(&regex::escape(literal));
        source.push_str(if behind.is_empty() { "(.+)" } else { "([^/]+)" });
        names.push(name);
        rest = behind;
    }
    if names.is_empty() {
        let reason = format!("`replace` has variables, and `{text}` has none");
        return Err(HandleError::Malformed(reason));
    }
    source.push_str(&regex::escape(rest));
    source.push('$');
    Ok((source, names))
}

impl Replacement {
    fn with_variables(text: &str, names: &[&str]) -> Result<Self, HandleError> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((literal, behind)) = rest.split_once('{') {
            let (name, behind) = behind.split_once('}').unwrap_or((behind, ""));
            let group = names.iter().position(|known| *known == name).ok_or_else(|| {
                HandleError::Malformed(format!("`{text}` names `{name}`, which `regex` does not"))
            })?;
            parts.push(Part::Text(literal.to_owned()));
            parts.push(Part::Group(group + 1));
            rest = behind;
        }
        parts.push(Part::Text(rest.to_owned()));
        Ok(Self(parts))
    }

    fn parse(text: &str, groups: usize) -> Result<Self, HandleError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text.chars().peekable();
        while let Some(character) = rest.next() {
            match character {
                '\\' => literal.extend(rest.next()),
                '$' => {
                    let mut group: Option<usize> = None;
                    // Takes as many digits as still form the number of an existing group, as Java
                    // does.
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

/// Rule of the plugin `contextPath`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContextPathRule {
    /// Prefix that is removed from the path.
    pub context_path: String,
    /// Prefix that is added to the rest.
    pub add_prefix: String,
    /// Context path that later selectors match instead of the original one; empty for no change.
    pub rewrite_context_path: String,
    /// Percentage of requests that `rewrite_context_path` applies to.
    pub percentage: u8,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContextPathHandle {
    #[serde(deserialize_with = "lenient::or_default")]
    context_path: String,
    #[serde(deserialize_with = "lenient::or_default")]
    add_prefix: String,
    #[serde(deserialize_with = "lenient::or_default")]
    rewrite_context_path: String,
    #[serde(deserialize_with = "lenient::integer")]
    percentage: Option<i64>,
}

impl ContextPathRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the percentage is out of range.
    pub fn read(handle: Option<&str>) -> Result<Self, HandleError> {
        let handle: ContextPathHandle = handle::read(handle)?;
        Ok(Self {
            context_path: handle.context_path.trim().trim_end_matches('/').to_owned(),
            add_prefix: handle.add_prefix.trim().to_owned(),
            rewrite_context_path: handle.rewrite_context_path.trim().to_owned(),
            percentage: percentage(handle.percentage)?,
        })
    }

    /// The path without the context path; empty if the rule has none. `None` if it does not begin with that. ShenYu
    /// cuts off as many characters whatever they are.
    pub fn rest<'a>(&self, path: &'a str) -> Option<&'a str> {
        if self.context_path.is_empty() {
            return Some("");
        }
        let rest = path.strip_prefix(&*self.context_path)?;
        (rest.is_empty() || rest.starts_with('/')).then_some(rest)
    }

    /// Returns the path for nodes; `rest` is the part after the context path. If `rest` is empty,
    /// the prefix is added to the whole path.
    pub fn real_path(&self, path: &str, rest: &str) -> String {
        let is_prefixed = !self.add_prefix.is_empty();
        let behind = if rest.is_empty() && is_prefixed { path } else { rest };
        format!("{}{behind}", self.add_prefix)
    }
}

/// Rule of the plugin `redirect`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RedirectRule {
    Pass,
    /// Requests run through the gateway again with this path.
    Inside(String),
    Elsewhere {
        location: String,
        /// HTTP status from 300 to 399.
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

/// Status of `redirect` rules without one.
const REDIRECT_STATUS: i64 = 302;

impl RedirectRule {
    /// Reads a rule's handle.
    ///
    /// # Errors
    ///
    /// If it is not a JSON object of this shape, or the status is not a redirect.
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
    fn variables_of_a_template_are_segments_and_the_last_one_is_the_rest() {
        let cases = [
            ("/shop/{id}/{item}", "/v2/orders/{id}/{item}", "/shop/1/b", "/v2/orders/1/b"),
            ("/shop/{id}/{item}", "/v2/{item}/of/{id}", "/shop/1/b/c", "/v2/b/c/of/1"),
            ("/shop/{id}/edit", "/e/{id}", "/shop/1/edit", "/e/1"),
            ("^/a.b/{id}$", "/e/{id}$1", "/a.b/1", "/e/1$1"),
            ("/shop/{id}", "/e/{id}", "/other/1", "/other/1"),
            ("/shop/{id}/edit", "/e/{id}", "/shop/1/2/edit", "/shop/1/2/edit"),
        ];
        for (regex, replace, path, expected) in cases {
            let handle = serde_json::json!({"regex": regex, "replace": replace}).to_string();
            let rule = RewriteRule::read(Some(&handle)).unwrap();
            assert_eq!(rule.apply(path).as_deref(), Some(expected), "{handle} {path}");
        }
        for (regex, replace) in [("/a/(.*)", "/b/{x}"), ("/a/{x}", "/b/{y}"), ("/a/{x", "/b/{x}")] {
            let handle = serde_json::json!({"regex": regex, "replace": replace}).to_string();
            assert!(RewriteRule::read(Some(&handle)).is_err(), "{handle}");
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
            (r#"{"contextPath":"/order"}"#, "/order", Some("")),
            (r#"{"contextPath":"/order","addPrefix":"/v1"}"#, "/order/a", Some("/v1/a")),
            (r#"{"contextPath":"/order","addPrefix":"/v1"}"#, "/order", Some("/v1/order")),
            (r#"{"contextPath":"/order","addPrefixed":true}"#, "/order/a", Some("/a")),
            (r#"{"contextPath":"/order"}"#, "/orders/a", None),
            (r#"{"contextPath":"/order"}"#, "/o", None),
            (r#"{"addPrefix":"/v1"}"#, "/a", Some("/v1/a")),
        ];
        for (handle, path, expected) in cases {
            let rule = ContextPathRule::read(Some(handle)).unwrap();
            let real = rule.rest(path).map(|rest| rule.real_path(path, rest));
            assert_eq!(real.as_deref(), expected, "{handle}");
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
