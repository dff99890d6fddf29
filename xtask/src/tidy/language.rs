//! Plain English in comments and texts: opening words of doc comments, and expressions that have a clearer one.
//!
//! A list names the files with known offences, `kind path count`. It may only shrink: a file may not exceed its entry,
//! and an entry that is larger than its file's count must be lowered, which `cargo x tidy --shrink` does.

use super::finding::{Finding, Severity};
use super::source::{Line, Source};
use super::words::has_word;
use std::collections::BTreeMap;
use std::fmt;

/// Openings that make a clause or a pronoun of what should be a noun or a verb.
const OPENINGS: &[&str] = &[
    "What", "Who", "Whose", "Whom", "Where", "Which", "How", "When", "It", "They", "Its", "Their",
    "One", "That", "Those", "None", "Nothing", "Nobody",
];

/// Words and expressions, in lower case.
const EXPRESSIONS: &[&str] = &[
    "nobody",
    "somebody",
    "anybody",
    "whoever",
    "is none",
    "are none",
    "came of",
    "come of",
    "comes of",
    "become of",
    "becomes of",
    "became of",
];

/// Words after which "is no" and "are no" are ordinary English.
const ORDINARY_AFTER_NO: &[&str] =
    &["longer", "more", "such", "other", "need", "way", "point", "guarantee", "reason", "effect"];

/// Place of an offence against the language rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A doc comment opens with a clause or a pronoun.
    Opening,
    /// A comment holds an expression of the list.
    Comment,
    /// A string literal contains a forbidden expression.
    Text,
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Opening => "opening",
            Self::Comment => "comment",
            Self::Text => "text",
        })
    }
}

impl Kind {
    fn parse(text: &str) -> Option<Self> {
        [Self::Opening, Self::Comment, Self::Text].into_iter().find(|kind| kind.to_string() == text)
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Opening => {
                "name the thing first; functions begin with a verb in the third person"
            }
            Self::Comment => {
                "say missing, empty, invalid, default, or name the role: client, caller, operator, node"
            }
            Self::Text => {
                "say what is wrong, where, and what to do: `invalid X`, `X is missing`, `expected X`"
            }
        }
    }
}

/// Line that offends against the language rules.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Offence {
    kind: Kind,
    path: String,
    /// Number of the line, from 1.
    line: usize,
    what: String,
}

/// Returns all offending lines of a file; tests are not judged.
pub(crate) fn offences(source: &Source) -> Vec<Offence> {
    let mut found = Vec::new();
    let mut follows_doc = false;
    for (number, line) in source.lines.iter().enumerate() {
        let doc = doc_text(line);
        let mut report = |kind: Kind, what: &str| {
            found.push(Offence {
                kind,
                path: source.path.clone(),
                line: number + 1,
                what: what.to_owned(),
            });
        };
        if !line.in_test {
            if let Some(text) = doc.filter(|_| !follows_doc)
                && let Some(opening) = clause_opening(text, source, number)
            {
                report(Kind::Opening, opening);
            }
            if let Some(expression) = expression(&line.comment) {
                report(Kind::Comment, expression);
            }
            // What the tasks of this workspace print is read by its own engineers only.
            if !source.path.starts_with("xtask/")
                && let Some(expression) = expression(&literal(line))
            {
                report(Kind::Text, expression);
            }
        }
        follows_doc = doc.is_some();
    }
    found
}

/// Returns the text of a line of a doc comment; `None` for other lines.
fn doc_text(line: &Line) -> Option<&str> {
    let text = line.text.trim_start();
    text.strip_prefix("///").or_else(|| text.strip_prefix("//!")).map(str::trim)
}

fn clause_opening(text: &str, source: &Source, number: usize) -> Option<&'static str> {
    let first = text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    if first == "Whether" {
        return (!documents_bool(source, number)).then_some("Whether");
    }
    OPENINGS.iter().copied().find(|opening| *opening == first)
}

/// Whether the item below the comment at `number` has to do with a `bool`.
fn documents_bool(source: &Source, number: usize) -> bool {
    let below = &source.lines[number + 1..];
    let item: Vec<&str> = below
        .iter()
        .skip_while(|line| doc_text(line).is_some() || line.code.trim().starts_with('#'))
        .take(8)
        .map(|line| line.code.as_str())
        .collect();
    let item = item.join(" ");
    let end = item.find(['{', ';']).unwrap_or(item.len());
    let field_end =
        if has_word(&item[..end], "fn") { end } else { item.find(',').unwrap_or(end).min(end) };
    has_word(&item[..field_end], "bool")
}

/// Returns the content of the string literals on a line.
fn literal(line: &Line) -> String {
    let parts = line.text.chars().zip(line.code.chars()).zip(line.comment.chars());
    parts
        .map(|((text, code), comment)| if code == ' ' && comment == ' ' { text } else { ' ' })
        .collect()
}

fn expression(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let listed = EXPRESSIONS.iter().copied().find(|expression| has_word(&text, expression));
    listed.or_else(|| ["is no", "are no"].into_iter().find(|start| negates_a_noun(&text, start)))
}

/// Whether a noun follows `start`. Words of [`ORDINARY_AFTER_NO`] do not count.
fn negates_a_noun(text: &str, start: &str) -> bool {
    text.match_indices(start).any(|(at, _)| {
        let begins = text[..at].chars().next_back().is_none_or(|before| !before.is_alphanumeric());
        let Some(rest) = text[at + start.len()..].strip_prefix(' ') else { return false };
        let word =
            rest.split(|c: char| !c.is_alphanumeric() && c != '`').next().unwrap_or_default();
        begins && !word.is_empty() && !ORDINARY_AFTER_NO.contains(&word)
    })
}

type Counts = BTreeMap<(Kind, String), usize>;

/// Compares the offences of the whole tree with the list of known ones.
pub(crate) fn check(offences: &[Offence], list_path: &str, list: &str) -> Vec<Finding> {
    let known = parse(list);
    let counts = count(offences);
    let allowed =
        |offence: &Offence| known.get(&(offence.kind, offence.path.clone())).copied().unwrap_or(0);
    let now = |offence: &Offence| counts[&(offence.kind, offence.path.clone())];
    let grown =
        offences.iter().filter(|offence| now(offence) > allowed(offence)).map(Offence::finding);
    let shrunk = known.iter().filter_map(|(key, known)| {
        let now = counts.get(key).copied().unwrap_or(0);
        (now < *known).then(|| tighten(list_path, &format!("{} {}", key.0, key.1), now))
    });
    grown.chain(shrunk).collect()
}

/// Returns the list of known offences with each number lowered to the current count of that kind in
/// that file. Entries that reach 0 are removed; comments stay.
pub(crate) fn shrink(offences: &[Offence], list: &str) -> String {
    let counts = count(offences);
    let mut shrunk: Vec<String> =
        list.lines().filter(|line| line.starts_with('#')).map(str::to_owned).collect();
    for ((kind, path), known) in parse(list) {
        let now = counts.get(&(kind, path.clone())).copied().unwrap_or(0).min(known);
        if now > 0 {
            shrunk.push(format!("{kind} {path} {now}"));
        }
    }
    shrunk.join("\n") + "\n"
}

fn count(offences: &[Offence]) -> Counts {
    let mut counts = Counts::new();
    for offence in offences {
        *counts.entry((offence.kind, offence.path.clone())).or_default() += 1;
    }
    counts
}

fn parse(list: &str) -> Counts {
    let entry = |line: &str| {
        let mut words = line.split_whitespace();
        let (kind, path) = (Kind::parse(words.next()?)?, words.next()?.to_owned());
        Some(((kind, path), words.next()?.parse().ok()?))
    };
    list.lines().filter_map(entry).collect()
}

fn tighten(list_path: &str, entry: &str, now: usize) -> Finding {
    Finding {
        path: list_path.to_owned(),
        line: 0,
        severity: Severity::Fails,
        what: format!("{entry} has {now} left"),
        why: "a list that is not tightened lets the wording return",
        remedy: if now == 0 {
            "remove the entry".to_owned()
        } else {
            format!("lower the entry to {now}")
        },
    }
}

impl Offence {
    fn finding(&self) -> Finding {
        Finding {
            path: self.path.clone(),
            line: self.line,
            severity: Severity::Fails,
            what: format!("{}: `{}`", self.kind, self.what),
            why: "a comment or a text is understood at first reading or not at all",
            remedy: self.kind.remedy().to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(Kind, String)> {
        let source = Source::parse("crates/a/src/lib.rs", text);
        offences(&source).into_iter().map(|offence| (offence.kind, offence.what)).collect()
    }

    #[test]
    fn openings_are_judged_on_the_first_line_of_a_doc_comment() {
        let opening = |word: &str| vec![(Kind::Opening, word.to_owned())];
        for (text, expected) in [
            ("/// What a node sent.\nstruct A;", opening("What")),
            ("/// Outcome.\n/// What it means is below.\nstruct A;", vec![]),
            ("//! Where a path leads.", opening("Where")),
            ("// What follows is plain.", vec![]),
            ("/// Itself.\nstruct A;", vec![]),
            ("/// Whether it is open.\nfn is_open(&self) -> bool {", vec![]),
            ("/// Whether it is open.\n#[inline]\nopen: bool,", vec![]),
            ("/// Whether it is open.\nopen: Cell<u8>,\nother: bool,", opening("Whether")),
            ("#[cfg(test)]\nmod tests {\n    /// What a test has.\n    struct A;\n}", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn expressions_are_found_in_comments_and_in_texts() {
        let one = |kind: Kind, what: &str| vec![(kind, what.to_owned())];
        for (text, expected) in [
            ("// Nobody reads it.", one(Kind::Comment, "nobody")),
            ("// there is no number in it", one(Kind::Comment, "is no")),
            ("// it is no longer there, there is no need", vec![]),
            ("// this no one expects", vec![]),
            ("let a = \"the body is no JSON\";", one(Kind::Text, "is no")),
            ("let a = \"nodes: there are none\"; // ordinary", one(Kind::Text, "are none")),
            ("fn nobody() {}", vec![]),
        ] {
            assert_eq!(found(text), expected, "{text}");
        }
    }

    #[test]
    fn a_file_may_not_exceed_its_entry_and_an_entry_may_not_exceed_its_file() {
        let source = Source::parse("a.rs", "// nobody\n// somebody\n");
        let offences = offences(&source);
        let counted = |list: &str| check(&offences, "list.txt", list).len();
        assert_eq!(counted("comment a.rs 2\n"), 0);
        assert_eq!(counted(""), 2);
        assert_eq!(counted("comment a.rs 1\n"), 2);
        assert_eq!(counted("comment a.rs 3\n"), 1);
        assert_eq!(counted("comment a.rs 2\ntext b.rs 1\n"), 1);
        assert_eq!(
            shrink(&offences, "# kept\ncomment a.rs 3\ntext b.rs 1\n"),
            "# kept\ncomment a.rs 2\n"
        );
        assert_eq!(shrink(&offences, "comment a.rs 1\n"), "comment a.rs 1\n");
    }
}
