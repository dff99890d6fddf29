//! Path patterns: the literal part that indexes them and the rest that is matched afterwards.
//!
//! `/a` is exact, `/a*` and `/a/*` are prefixes; anything after the first `*` (or `:name` where
//! parameters are on) is compiled to an anchored regular expression, which runs in linear time.

use std::ops::Range;

use regex::bytes::{CaptureLocations, Regex, RegexBuilder};

/// Compiled size of one pattern, in bytes: far above what 4,096 characters of path need.
const REGEX_BYTES_MAX: usize = 1024 * 1024;

/// A path pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: String,
    key: Key,
    rest: Rest,
}

/// How a pattern is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Key {
    /// By the whole path.
    Exact(Box<[u8]>),
    /// By the start of the path.
    Prefix(Box<[u8]>),
}

/// What is left to match once the key has.
#[derive(Debug)]
enum Rest {
    /// Nothing.
    Nothing,
    /// Anything; captured under this name.
    Anything(Box<str>),
    /// A regular expression over the whole path.
    Regex(Box<Regex>),
}

/// Whether `:name` stands for a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parameters {
    On,
    Off,
}

impl Pattern {
    /// Takes `text` apart.
    pub(crate) fn parse(text: &str, parameters: Parameters) -> Pattern {
        let Some(special) = first_special(text, parameters) else {
            let key = Key::Exact(text.as_bytes().into());
            return Pattern { text: text.to_owned(), key, rest: Rest::Nothing };
        };
        let key = Key::Prefix(text.as_bytes()[..special].into());
        let rest = match text[special..].strip_prefix('*') {
            Some(name) if !name.contains(['/', '*']) => Rest::Anything(capture_name(name).into()),
            _ => compile(text, special, parameters),
        };
        Pattern { text: text.to_owned(), key, rest }
    }

    /// The pattern as written.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// How it is found.
    pub(crate) fn key(&self) -> &Key {
        &self.key
    }

    /// Whether `path`, which its key has found, matches; fills `captures`.
    #[inline]
    pub(crate) fn matches(&self, path: &[u8], captures: &mut Captures) -> bool {
        match (&self.rest, &self.key) {
            (Rest::Nothing, _) => true,
            (Rest::Anything(name), Key::Prefix(prefix)) => {
                captures.push(name, prefix.len()..path.len());
                true
            }
            (Rest::Anything(_), Key::Exact(_)) => true,
            (Rest::Regex(regex), _) => captures.read(regex, path),
        }
    }
}

/// Byte offset of the first `*`, or of the first segment that is a parameter.
fn first_special(text: &str, parameters: Parameters) -> Option<usize> {
    let star = text.find('*');
    let colon = match parameters {
        Parameters::On => text.find("/:").map(|slash| slash + 1),
        Parameters::Off => None,
    };
    match (star, colon) {
        (Some(star), Some(colon)) => Some(star.min(colon)),
        (star, colon) => star.or(colon),
    }
}

/// The name of a capture; an unnamed `*` is `:ext`, as APISIX calls it.
fn capture_name(name: &str) -> &str {
    if name.is_empty() { ":ext" } else { name }
}

/// Compiles the whole pattern, its captures as named groups.
fn compile(text: &str, special: usize, parameters: Parameters) -> Rest {
    let mut source = String::from("(?s-u)\\A");
    source.push_str(&regex::escape(&text[..special]));
    let mut rest = &text[special..];
    let mut at_segment_start = text[..special].ends_with('/');
    let mut names: Vec<&str> = Vec::new();
    while let Some(first) = rest.chars().next() {
        let is_parameter = parameters == Parameters::On && at_segment_start && first == ':';
        if first == '*' || is_parameter {
            let end = rest[1..].find(['/', '*']).map_or(rest.len(), |end| end + 1);
            let inner = if first == '*' { ".*" } else { "[^/]+" };
            source.push_str(&group(&rest[1..end], &mut names, inner));
            rest = &rest[end..];
            at_segment_start = false;
        } else {
            source.push_str(&regex::escape(first.encode_utf8(&mut [0; 4])));
            at_segment_start = first == '/';
            rest = &rest[first.len_utf8()..];
        }
    }
    source.push_str("\\z");
    // Too large to compile: a pattern cut short would take requests it should not, so this one
    // takes none.
    let regex = RegexBuilder::new(&source).size_limit(REGEX_BYTES_MAX).build();
    let nothing = || Regex::new("[^\\s\\S]").expect("an empty class is valid");
    Rest::Regex(Box::new(regex.unwrap_or_else(|_| nothing())))
}

/// A capturing group, named where the name can be one and is the first of its kind.
fn group<'a>(name: &'a str, names: &mut Vec<&'a str>, inner: &str) -> String {
    let is_word = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    if !is_word || names.contains(&name) {
        return format!("({inner})");
    }
    names.push(name);
    format!("(?<{name}>{inner})")
}

/// What a pattern captured, by name; one value serves many requests.
#[derive(Debug, Default)]
pub struct Captures {
    ranges: Vec<(String, Range<usize>)>,
    used: usize,
    locations: Option<(String, CaptureLocations)>,
}

impl Captures {
    /// Forgets what was captured.
    #[inline]
    pub fn clear(&mut self) {
        self.used = 0;
    }

    /// The value captured as `name`, out of the path that was matched.
    pub fn get<'a>(&self, name: &str, path: &'a [u8]) -> Option<&'a [u8]> {
        let captured = self.ranges[..self.used].iter().find(|(known, _)| known == name);
        captured.and_then(|(_, range)| path.get(range.clone()))
    }

    #[inline]
    fn push(&mut self, name: &str, range: Range<usize>) {
        if self.used == self.ranges.len() {
            self.ranges.push((String::new(), 0..0));
        }
        let (known, held) = &mut self.ranges[self.used];
        known.clear();
        known.push_str(name);
        *held = range;
        self.used += 1;
    }

    /// Runs `regex` and keeps its groups.
    fn read(&mut self, regex: &Regex, path: &[u8]) -> bool {
        let mut locations = match self.locations.take() {
            Some((source, locations)) if source == regex.as_str() => locations,
            _ => regex.capture_locations(),
        };
        let matched = regex.captures_read(&mut locations, path).is_some();
        if matched {
            for (index, name) in regex.capture_names().enumerate().skip(1) {
                if let Some((start, end)) = locations.get(index) {
                    self.push(name.unwrap_or(":ext"), start..end);
                }
            }
        }
        self.locations = Some((regex.as_str().to_owned(), locations));
        matched
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pattern: &str, parameters: Parameters, path: &str, expected: Option<&[(&str, &str)]>) {
        let pattern = Pattern::parse(pattern, parameters);
        let by_key = match pattern.key() {
            Key::Exact(exact) => path.as_bytes() == &**exact,
            Key::Prefix(prefix) => path.as_bytes().starts_with(prefix),
        };
        let mut captures = Captures::default();
        let matched = by_key && pattern.matches(path.as_bytes(), &mut captures);
        assert_eq!(matched, expected.is_some(), "{} against {path}", pattern.text());
        for (name, value) in expected.unwrap_or_default() {
            let found = captures.get(name, path.as_bytes());
            assert_eq!(found, Some(value.as_bytes()), "{name} of {}", pattern.text());
        }
    }

    #[test]
    fn exact_and_prefix_patterns() {
        use Parameters::Off;
        check("/foo", Off, "/foo", Some(&[]));
        check("/foo", Off, "/foo/", None);
        check("/foo*", Off, "/foo", Some(&[(":ext", "")]));
        check("/foo*", Off, "/foobar", Some(&[(":ext", "bar")]));
        check("/foo*", Off, "/foo/bar", Some(&[]));
        check("/foo/*", Off, "/foo/", Some(&[(":ext", "")]));
        check("/foo/*", Off, "/foo/a/b", Some(&[(":ext", "a/b")]));
        check("/foo/*", Off, "/foo", None);
        check("/*", Off, "/", Some(&[(":ext", "")]));
        check("/a/*rest", Off, "/a/b", Some(&[("rest", "b")]));
    }

    #[test]
    fn a_star_in_the_middle_is_greedy_across_slashes() {
        use Parameters::Off;
        check("/a/*/b", Off, "/a/x/b", Some(&[]));
        check("/a/*/b", Off, "/a/x/y/b", Some(&[]));
        check("/a/*/b", Off, "/a/b", None);
        check("/a/*/b", Off, "/a/x/b/c", None);
        check("/a/*name/b", Off, "/a/x/y/b", Some(&[("name", "x/y")]));
        check("/a/*x/b/*y", Off, "/a/1/b/2", Some(&[("x", "1"), ("y", "2")]));
        check("/a.c/*/b", Off, "/abc/x/b", None);
    }

    #[test]
    fn parameters_take_one_segment_where_they_are_on() {
        use Parameters::{Off, On};
        check("/user/:id", On, "/user/7", Some(&[("id", "7")]));
        check("/user/:id", On, "/user/7/x", None);
        check("/user/:id", On, "/user/", None);
        check("/user/:id/x", On, "/user/7/x", Some(&[("id", "7")]));
        check("/:a/:b/*c", On, "/1/2/3/4", Some(&[("a", "1"), ("b", "2"), ("c", "3/4")]));
        check("/user/:id", Off, "/user/:id", Some(&[]));
        check("/user/:id", Off, "/user/7", None);
        check("/a:b", On, "/a:b", Some(&[]));
    }
}
