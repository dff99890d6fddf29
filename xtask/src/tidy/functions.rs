//! Length of functions, with a ratchet: a list of known long functions that may only shrink.
//!
//! A line of the list is `path function lines`. A function may not grow beyond its entry. An entry
//! that is larger than its function, or whose function does not exist, must be lowered or removed.

use super::finding::{Finding, Severity};
use super::source::{self, Source};

/// Limit for the lines of code in one function; longer ones are hard to grasp.
const FUNCTION_LINES_MAX: usize = 70;

/// A function that exceeds the limit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LongFunction {
    path: String,
    name: String,
    /// First line of the function, from 1.
    line: usize,
    lines: usize,
}

/// Returns every function of a file that exceeds the limit.
pub(crate) fn long_functions(source: &Source) -> Vec<LongFunction> {
    let code = source.code();
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(position) = code[from..].find("fn ").map(|offset| from + offset) {
        from = position + 3;
        if position > 0 && is_word_byte(code.as_bytes()[position - 1]) {
            continue;
        }
        let name: String = code[from..].chars().take_while(|c| is_word_character(*c)).collect();
        if name.is_empty() {
            continue;
        }
        let (first, last) = (
            source::line_of(&code, position),
            source::line_of(&code, source::item_end(&code, from)),
        );
        let lines = code_lines(source, body_start(&code, from, first) + 1, last);
        if lines > FUNCTION_LINES_MAX {
            found.push(LongFunction { path: source.path.clone(), name, line: first + 1, lines });
        }
    }
    found
}

/// Returns the line of the brace that opens the body, because long parameter lists do not count.
fn body_start(code: &str, from: usize, fallback: usize) -> usize {
    code[from..].find('{').map_or(fallback, |offset| source::line_of(code, from + offset))
}

/// Counts the lines in the range that contain more than comments and blanks.
fn code_lines(source: &Source, first: usize, last: usize) -> usize {
    let inside = source.lines.get(first..last.min(source.lines.len())).unwrap_or_default();
    inside.iter().filter(|line| line.text.trim() != line.comment.trim()).count()
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Compares the long functions of the whole tree with the ratchet.
pub(crate) fn check(found: &[LongFunction], ratchet_path: &str, ratchet: &str) -> Vec<Finding> {
    let entries = parse_ratchet(ratchet);
    let mut findings: Vec<Finding> = found
        .iter()
        .filter(|function| !entries.iter().any(|entry| entry.covers(function)))
        .map(LongFunction::finding)
        .collect();
    for entry in &entries {
        let longest = found.iter().filter(|f| entry.names(f)).map(|f| f.lines).max();
        if longest.is_none_or(|lines| lines < entry.lines) {
            findings.push(entry.finding(ratchet_path, longest));
        }
    }
    findings
}

struct Entry {
    line: usize,
    path: String,
    name: String,
    lines: usize,
}

fn parse_ratchet(text: &str) -> Vec<Entry> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.starts_with('#'));
    lines
        .filter_map(|(number, line)| {
            let mut words = line.split_whitespace();
            let (path, name) = (words.next()?.to_owned(), words.next()?.to_owned());
            Some(Entry { line: number + 1, path, name, lines: words.next()?.parse().ok()? })
        })
        .collect()
}

impl Entry {
    fn names(&self, function: &LongFunction) -> bool {
        self.path == function.path && self.name == function.name
    }

    fn covers(&self, function: &LongFunction) -> bool {
        self.names(function) && function.lines <= self.lines
    }

    fn finding(&self, ratchet_path: &str, longest: Option<usize>) -> Finding {
        let remedy = match longest {
            Some(lines) => format!("lower the entry to {lines}"),
            None => "remove the entry".to_owned(),
        };
        Finding {
            path: ratchet_path.to_owned(),
            line: self.line,
            severity: Severity::Fails,
            what: format!("{} {} is no longer {} lines", self.path, self.name, self.lines),
            why: "a ratchet that is not tightened lets the function grow again",
            remedy,
        }
    }
}

impl LongFunction {
    fn finding(&self) -> Finding {
        Finding {
            path: self.path.clone(),
            line: self.line,
            severity: Severity::Fails,
            what: format!(
                "function {} has {} lines (limit {FUNCTION_LINES_MAX})",
                self.name, self.lines
            ),
            why: "a function is read in one look or not at all",
            remedy: "give a step of it a name of its own".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(lines: usize) -> Vec<LongFunction> {
        let body = "    let a = 1;\n".repeat(lines);
        let text = format!("fn short() {{}}\nfn long(\n    a: [u8; 4],\n) {{\n{body}}}\n");
        long_functions(&Source::parse("a.rs", &text))
    }

    #[test]
    fn the_limit_is_counted_in_lines_of_the_body() {
        assert_eq!(long(70), []);
        let expected =
            LongFunction { path: "a.rs".into(), name: "long".into(), line: 2, lines: 71 };
        assert_eq!(long(71), [expected]);
    }

    #[test]
    fn comments_and_blanks_do_not_count() {
        let text = format!("fn f() {{\n{}}}\n", "    // why\n\n".repeat(100));
        assert_eq!(long_functions(&Source::parse("a.rs", &text)), []);
    }

    #[test]
    fn the_ratchet_may_only_shrink() {
        let cases = [
            ("", 1),
            ("# comment\na.rs long 80\n", 0),
            ("a.rs long 90\n", 1),
            ("a.rs long 79\n", 1),
            ("a.rs long 80\na.rs gone 75\n", 1),
        ];
        for (ratchet, expected) in cases {
            assert_eq!(check(&long(80), "r.txt", ratchet).len(), expected, "{ratchet}");
        }
    }
}
