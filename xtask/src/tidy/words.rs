//! Words that do not belong in the tree: leftovers of work in progress, silenced lints, and names
//! for which the product has another word.

use super::finding::{Finding, Severity};
use super::source::{Line, Source};

/// Where a word is looked for.
#[derive(Clone, Copy)]
enum Place {
    /// Code, tests included.
    Code,
    /// Code outside tests.
    ProductCode,
    Comment,
}

struct Forbidden {
    word: &'static str,
    place: Place,
    why: &'static str,
    remedy: &'static str,
}

const FORBIDDEN: &[Forbidden] = &[
    Forbidden {
        word: "dbg!",
        place: Place::Code,
        why: "left over from a search for a bug",
        remedy: "remove it, or log the value",
    },
    Forbidden {
        word: "todo!",
        place: Place::Code,
        why: "a stub is a crash that waits",
        remedy: "write it, or leave the whole feature out",
    },
    Forbidden {
        word: "unimplemented!",
        place: Place::Code,
        why: "a stub is a crash that waits",
        remedy: "write it, or leave the whole feature out",
    },
    Forbidden {
        word: "#[allow(",
        place: Place::Code,
        why: "an allowance outlives its reason unnoticed",
        remedy: "use #[expect(lint, reason = \"…\")]",
    },
    Forbidden {
        word: "#![allow(",
        place: Place::Code,
        why: "an allowance outlives its reason unnoticed",
        remedy: "use #![expect(lint, reason = \"…\")]",
    },
    Forbidden {
        word: ".unwrap()",
        place: Place::ProductCode,
        why: "bad input must never stop the program",
        remedy: "return an error, or `expect` with the sentence that states the invariant",
    },
    Forbidden {
        word: "TODO",
        place: Place::Comment,
        why: "notes in the code are read by nobody",
        remedy: "do it now, or write it down where work is planned",
    },
    Forbidden {
        word: "FIXME",
        place: Place::Comment,
        why: "known faults are fixed, not noted",
        remedy: "fix it",
    },
    Forbidden {
        word: "XXX",
        place: Place::Comment,
        why: "notes in the code are read by nobody",
        remedy: "say what is meant, or remove it",
    },
];

/// Names of functions that say nothing, can't be searched for, or are not the field's words.
const FUNCTIONS: &[&str] =
    &["fn of", "fn shown", "fn judge", "fn told", "fn tell", "fn settle", "fn plugged", "fn lent"];

/// Looks for every forbidden word and every forbidden name of a function.
pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
        for name in FUNCTIONS.iter().filter(|name| has_word(&line.code, name)) {
            findings.push(Finding {
                path: source.path.clone(),
                line: number + 1,
                severity: Severity::Fails,
                what: format!("`{name}`"),
                why: "a reader can neither search for the name nor guess what it does",
                remedy: "from_, to_, into_ for conversions; parse, open, build for what can fail; \
                         else the verb for what it does"
                    .to_owned(),
            });
        }
        for forbidden in FORBIDDEN.iter().filter(|forbidden| forbidden.is_in(line)) {
            findings.push(Finding {
                path: source.path.clone(),
                line: number + 1,
                severity: Severity::Fails,
                what: format!("`{}`", forbidden.word),
                why: forbidden.why,
                remedy: forbidden.remedy.to_owned(),
            });
        }
    }
    findings
}

impl Forbidden {
    fn is_in(&self, line: &Line) -> bool {
        match self.place {
            Place::Code => has_word(&line.code, self.word),
            Place::ProductCode => !line.in_test && has_word(&line.code, self.word),
            Place::Comment => has_word(&line.comment, self.word),
        }
    }
}

/// Whether a text holds the word and not merely a longer one.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        let starts_inside =
            word.starts_with(is_word_character) && before.is_some_and(is_word_character);
        let ends_inside = word.ends_with(is_word_character) && after.is_some_and(is_word_character);
        !starts_inside && !ends_inside
    })
}

fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Words with a better one, read from a list: `word => better word`, a line each.
pub(crate) struct Vocabulary {
    entries: Vec<(String, String)>,
}

impl Vocabulary {
    /// Reads the list; lines that start with `#` are comments.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.split_once("=>"));
        let entries = pairs.map(|(a, b)| (a.trim().to_lowercase(), b.trim().to_owned())).collect();
        Self { entries }
    }

    /// Looks for the words in names and comments alike, whatever their case.
    pub(crate) fn check(&self, source: &Source) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (number, line) in source.lines.iter().enumerate() {
            let text = format!("{} {}", split_names(&line.code), line.comment).to_lowercase();
            for (word, better) in self.entries.iter().filter(|(word, _)| has_word(&text, word)) {
                findings.push(Finding {
                    path: source.path.clone(),
                    line: number + 1,
                    severity: Severity::Fails,
                    what: format!("the word `{word}`"),
                    why: "one word a thing, the same in code, API, docs and console",
                    remedy: format!("say {better} (docs/glossary.md)"),
                });
            }
        }
        findings
    }
}

/// Splits names into words: `find_route` and `RouteTable` both hold the word route.
fn split_names(code: &str) -> String {
    let mut words = String::with_capacity(code.len() + code.len() / 4);
    let mut previous_is_lower = false;
    for character in code.chars() {
        if character.is_uppercase() && previous_is_lower {
            words.push(' ');
        }
        previous_is_lower = character.is_lowercase();
        words.push(if character == '_' { ' ' } else { character });
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str, text: &str) -> Vec<String> {
        check(&Source::parse(path, text)).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn names_of_functions_that_say_nothing_are_found() {
        let source =
            Source::parse("a.rs", "fn of(a: u8) {}\nfn of_route() {}\nfn settle<T>() {}\n");
        let found: Vec<usize> = check(&source).iter().map(|finding| finding.line).collect();
        assert_eq!(found, [1, 3]);
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        let cases = [
            ("let a = b.unwrap();", vec!["`.unwrap()`"]),
            ("let a = b.unwrap_or(1);", vec![]),
            ("// b.unwrap() would stop the program", vec![]),
            ("let a = \".unwrap()\";", vec![]),
            ("dbg!(a); todo!()", vec!["`dbg!`", "`todo!`"]),
            ("// TODO later", vec!["`TODO`"]),
            ("// the TODOS are elsewhere", vec![]),
            ("#[allow(dead_code)]", vec!["`#[allow(`"]),
        ];
        for (text, expected) in cases {
            assert_eq!(words("crates/a/src/lib.rs", text), expected, "{text}");
        }
    }

    #[test]
    fn tests_may_unwrap_but_not_debug() {
        let path = "crates/a/src/b/tests.rs";
        assert_eq!(words(path, "a.unwrap(); dbg!(b)"), ["`dbg!`"]);
    }

    #[test]
    fn vocabulary_sees_names_of_either_case_and_comments() {
        let vocabulary = Vocabulary::parse("# comment\nvhost => host\nbackend server => node\n");
        let cases = [
            ("fn find_vhost() {}", 1),
            ("struct VhostTable;", 1),
            ("// the backend server answered", 1),
            ("let hosts = vhosts_of(x);", 0),
            ("let s = \"vhost\";", 0),
        ];
        for (text, expected) in cases {
            let source = Source::parse("crates/a/src/lib.rs", text);
            assert_eq!(vocabulary.check(&source).len(), expected, "{text}");
        }
    }
}
