//! Plugin `rewrite`: replaces the path for nodes by a regular expression or a template.

use std::borrow::Cow;

use regex::Regex;
use tollhouse_shenyu::expression;
use tollhouse_shenyu::matching::Engine;

use crate::plugin::prelude::*;
use crate::shared::percentage::{Paths, percentage};
use crate::turn::Turn;

/// Maximum length in bytes of a path that a rewrite may produce.
const PATH_BYTES_MAX: usize = 16 << 10;

/// Rule of `rewrite`.
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
    // A template may omit the leading slash, as in ShenYu.
    let start = if text.starts_with('/') { "^" } else { "^/" };
    let (mut source, mut names, mut rest) = (start.to_owned(), Vec::new(), text);
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

impl ShenyuPlugin for RewriteRule {
    const ROW: Row = Row::harmless("rewrite", 90).with(Seed::new("3", "HttpProcess"));

    fn compile(place: &Place<'_>, _: &mut Resources<'_>) -> CompileResult<Self> {
        Ok(Self::read(place.handle())?.into())
    }

    fn check_handle(handle: &str) -> Result<(), BuildError> {
        Ok(Self::read(Some(handle)).map(drop)?)
    }

    async fn act<'o>(self: &Arc<Self>, run: &mut Run<'_, '_>) -> Verdict<'o> {
        rewrite(self, run.cx.random() % 100, run.turn, run.engine);
        Verdict::Next
    }

    fn explain(&self, preview: &mut Preview<'_>) -> Prediction {
        let before = Paths::new(preview.turn);
        // A draw of zero is below every percentage, so that the change applies.
        rewrite(self, 0, preview.turn, preview.engine);
        Prediction::Next(before.effect(preview.turn, self.percentage))
    }
}

/// Rewrites the path; `draw` is a random number below 100, compared with the rule's percentage.
/// Nodes get the new path. Conditions see it only if the context path has been replaced.
fn rewrite(rule: &RewriteRule, draw: u64, turn: &mut Turn, engine: &Engine) {
    if draw >= rule.percentage.into() {
        return;
    }
    let base = match (&*turn.rewrite_context_path, &turn.real) {
        ("", _) => Cow::Borrowed(&*turn.asked),
        (context, real) => Cow::Owned(format!("{context}{}", real.as_ref().unwrap_or(&turn.asked))),
    };
    let Some(path) = rule.apply(&base) else { return };
    if rule.rewrites_metadata {
        let context = match &*turn.rewrite_context_path {
            "" => &turn.context_path,
            replaced => replaced,
        };
        let called = format!("{context}{path}");
        if let Ok(decision) = engine.rpc_type(None, None, &called) {
            turn.facts.rpc_type = decision.rpc_type;
            turn.metadata_path = decision.metadata.map(|_| called);
        }
    }
    // If the result is blank, nodes get the path as it was before.
    turn.rewritten = Some(path).filter(|path| !path.trim().is_empty());
    turn.is_changed = true;
    turn.refresh_seen();
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
            ("shop/{id}/edit", "/e/{id}", "/shop/1/edit", "/e/1"),
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
}
