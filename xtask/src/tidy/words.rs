//! Words that do not belong in the tree: leftovers of work in progress, and silenced lints. Names
//! that the product replaces with others are in `glossary.rs`.

use super::finding::{Finding, Severity};
use super::source::{Line, Source};

/// Places where a word is forbidden.
#[derive(Clone, Copy)]
enum Place {
    Code,
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
        why: "notes in the code are not read",
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
        why: "notes in the code are not read",
        remedy: "say what is meant, or remove it",
    },
];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in source.lines.iter().enumerate() {
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

/// Checks whether a text contains the word itself and not only a longer one.
pub(super) fn has_word(text: &str, word: &str) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(path: &str, text: &str) -> Vec<String> {
        check(&Source::parse(path, text)).into_iter().map(|finding| finding.what).collect()
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
}
