//! Labels by which clients are chosen for a gray release.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::instance::Metadata;

/// Maximum size of a compiled expression in bytes, so that a short one cannot take much memory.
const EXPRESSION_BYTES_MAX: usize = 256 * 1024;

/// Value that matches any.
const ANY: &str = "*";

/// Way to compare a label's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LabelMatch {
    Exact,
    /// Regular expression, found anywhere in the value.
    Regex,
    NotEquals,
    /// Value is in a list, separated by commas.
    In,
    /// Value is missing from a list, separated by commas.
    NotIn,
    /// Integer from `low` to `high`, written `low~high`.
    Range,
}

/// Label that a client must have.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClientLabel {
    pub key: Box<str>,
    pub kind: LabelMatch,
    /// Value to compare with; empty or `*` matches any value.
    pub value: Box<str>,
    /// Compiled expression; `None` inside if the value is not one.
    #[serde(skip)]
    expression: OnceLock<Option<Regex>>,
}

impl ClientLabel {
    pub fn new(key: &str, kind: LabelMatch, value: &str) -> Self {
        Self { key: key.into(), kind, value: value.into(), expression: OnceLock::new() }
    }

    /// Whether the value has the form that its kind requires.
    pub(crate) fn is_valid(&self) -> bool {
        match self.kind {
            LabelMatch::Regex => self.matches_all() || self.expression().is_some(),
            LabelMatch::Range => self.matches_all() || self.range().is_some(),
            LabelMatch::Exact | LabelMatch::NotEquals | LabelMatch::In | LabelMatch::NotIn => true,
        }
    }

    /// Whether a client with these labels matches; one without the label does not.
    pub(crate) fn matches(&self, labels: &Metadata) -> bool {
        let Some(value) = labels.get(&self.key) else { return false };
        if self.matches_all() {
            return true;
        }
        let value = &**value;
        match self.kind {
            LabelMatch::Exact => value == &*self.value,
            LabelMatch::Regex => self.expression().is_some_and(|it| it.is_match(value)),
            LabelMatch::NotEquals => value != &*self.value,
            LabelMatch::In => self.value.split(',').any(|item| item == value),
            LabelMatch::NotIn => !self.value.split(',').any(|item| item == value),
            LabelMatch::Range => {
                let number = value.parse::<i64>().ok();
                number.zip(self.range()).is_some_and(|(it, (low, high))| low <= it && it <= high)
            }
        }
    }

    fn matches_all(&self) -> bool {
        self.value.is_empty() || &*self.value == ANY
    }

    fn expression(&self) -> Option<&Regex> {
        let compile =
            || RegexBuilder::new(&self.value).size_limit(EXPRESSION_BYTES_MAX).build().ok();
        self.expression.get_or_init(compile).as_ref()
    }

    fn range(&self) -> Option<(i64, i64)> {
        let (low, high) = self.value.split_once('~')?;
        Some((low.parse().ok()?, high.parse().ok()?))
    }
}

impl PartialEq for ClientLabel {
    fn eq(&self, other: &Self) -> bool {
        (&self.key, self.kind, &self.value) == (&other.key, other.kind, &other.value)
    }
}

impl Eq for ClientLabel {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_compares_in_its_way() {
        use LabelMatch::{Exact, In, NotEquals, NotIn, Range, Regex};
        let cases = [
            (Exact, "a", "a", true),
            (Exact, "a", "b", false),
            (Exact, "*", "b", true),
            (Exact, "", "b", true),
            (Regex, "^10\\.0\\.", "10.0.0.1", true),
            (Regex, "^10\\.0\\.", "10.1.0.1", false),
            (Regex, "(", "(", false),
            (NotEquals, "a", "b", true),
            (NotEquals, "a", "a", false),
            (In, "a,b", "b", true),
            (In, "a,b", "ab", false),
            (NotIn, "a,b", "c", true),
            (NotIn, "a,b", "a", false),
            (Range, "1~5", "5", true),
            (Range, "1~5", "6", false),
            (Range, "1~5", "x", false),
            (Range, "5", "5", false),
        ];
        for (kind, value, text, expected) in cases {
            let labels = Metadata::from([("k".into(), text.into())]);
            let label = ClientLabel::new("k", kind, value);
            assert_eq!(label.matches(&labels), expected, "{label:?} {text}");
            assert!(!label.matches(&Metadata::new()), "a client without the label");
        }
    }

    #[test]
    fn values_that_match_nothing_are_invalid() {
        for (kind, value, expected) in [
            (LabelMatch::Regex, "(", false),
            (LabelMatch::Regex, "a{1000}{1000}", false),
            (LabelMatch::Regex, "*", true),
            (LabelMatch::Range, "1-5", false),
            (LabelMatch::Range, "1~5", true),
            (LabelMatch::Exact, "(", true),
        ] {
            assert_eq!(ClientLabel::new("k", kind, value).is_valid(), expected, "{value}");
        }
    }
}
