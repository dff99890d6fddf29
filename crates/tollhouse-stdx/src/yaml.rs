//! YAML parser with limits, because documents are untrusted and a few lines of anchors can expand
//! to gigabytes.
//!
//! Only this module configures the limits of the library. The caller interprets the document.

use serde::de::DeserializeOwned;
use serde_saphyr::options::DuplicateKeyPolicy;

/// Limits on the size of a parsed YAML document.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Maximum number of nodes: scalars, and beginnings and ends of lists and maps.
    pub parts_max: usize,
    /// Maximum nesting of lists and maps.
    pub depth_max: usize,
    /// Maximum number of anchors, and of aliases.
    pub aliases_max: usize,
    /// Maximum number of nodes added by aliases, which stops documents that grow by nested
    /// repetition.
    pub aliased_parts_max: usize,
}

/// Error in a YAML document, with its position if known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct YamlError {
    /// Line and column of the error, from 1.
    pub at: Option<(u64, u64)>,
    /// Description of the error, in one line.
    pub why: String,
}

impl std::fmt::Display for YamlError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Some((line, column)) => write!(out, "{} at line {line}, column {column}", self.why),
            None => out.write_str(&self.why),
        }
    }
}

impl std::error::Error for YamlError {}

/// Parses one document. Only `true` and `false` are booleans, so that `off` and `no` remain text.
/// Duplicate keys are an error.
///
/// # Errors
/// If the text is not YAML, does not match the type, or exceeds a limit.
pub fn parse<T: DeserializeOwned>(text: &str, bounds: Bounds) -> Result<T, YamlError> {
    read(text, bounds, Booleans::TrueAndFalse)
}

/// Parses one document with the booleans of YAML 1.1 (`yes`, `no`, `on`, `off`), for files of other
/// programs.
///
/// # Errors
/// Like [`parse`].
pub fn parse_yaml_1_1<T: DeserializeOwned>(text: &str, bounds: Bounds) -> Result<T, YamlError> {
    read(text, bounds, Booleans::Words)
}

/// Set of words that are booleans.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Booleans {
    TrueAndFalse,
    Words,
}

fn read<T: DeserializeOwned>(
    text: &str,
    bounds: Bounds,
    booleans: Booleans,
) -> Result<T, YamlError> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: bounds.parts_max,
            max_nodes: bounds.parts_max,
            max_aliases: bounds.aliases_max,
            max_anchors: bounds.aliases_max,
            max_depth: bounds.depth_max,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: bounds.aliased_parts_max,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        strict_booleans: booleans == Booleans::TrueAndFalse,
        emit_comments: false,
        with_snippet: false,
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| describe(&error))
}

fn describe(error: &serde_saphyr::Error) -> YamlError {
    let text = error.to_string();
    // Further lines only illustrate the position, which is returned separately.
    let why = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let place = error.location().map(|at| (at.line(), at.column())).filter(|(line, _)| *line > 0);
    let why = match place {
        Some((line, column)) => {
            why.strip_suffix(&format!(" at line {line}, column {column}")).unwrap_or(why)
        }
        None => why,
    };
    YamlError { at: place, why: why.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const BOUNDS: Bounds =
        Bounds { parts_max: 1_000, depth_max: 16, aliases_max: 100, aliased_parts_max: 1_000 };

    #[test]
    fn words_stay_words_and_mistakes_are_placed() {
        let read = |text| parse::<BTreeMap<String, String>>(text, BOUNDS);
        assert_eq!(read("a: off\n").expect("a map")["a"], "off");
        let error = read("a: x\na: y\n").expect_err("a key stands twice");
        assert_eq!(error.at, Some((2, 1)), "{error}");
        assert!(error.to_string().ends_with(" at line 2, column 1"), "{error}");
    }

    #[test]
    fn every_bound_holds() {
        let list = |text: &str| parse::<serde::de::IgnoredAny>(text, BOUNDS);
        assert!(list("[a, b]").is_ok());
        let long = format!("[{}]", vec!["a"; 2_000].join(","));
        assert!(list(&long).is_err(), "parts");
        assert!(list(&"[".repeat(100)).is_err(), "depth");
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..8 {
            let before = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
        }
        assert!(list(&bomb).is_err(), "aliases");
    }
}
