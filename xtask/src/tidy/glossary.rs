//! Words that the product replaces with others. The table at the end of `docs/glossary.md` defines
//! them; this file reads and applies it. Leftovers and silenced lints are checked in `words.rs`.

use super::finding::{Finding, Severity};
use super::source::{Line, Source};
use super::words::has_word;

/// Heading above the table of words in the glossary.
const HEADING: &str = "## Words that names avoid";

/// Places where a word is forbidden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    /// Functions with exactly this name, including tests, and functions outside tests whose name
    /// begins with it.
    Function,
    /// A word in the name of a function or a type outside tests; test names are sentences.
    Item,
    /// Names and comments alike.
    Anywhere,
}

/// Row of the glossary's table.
#[derive(Debug)]
struct Entry {
    word: String,
    scope: Scope,
    instead: String,
}

/// The words to avoid in the tree.
#[derive(Debug)]
pub(crate) struct Glossary {
    entries: Vec<Entry>,
}

impl Glossary {
    /// Reads the table of the document at `path`. A malformed row and a missing table are findings,
    /// because otherwise a typing error would silently disable the check.
    pub(crate) fn parse(path: &str, text: &str) -> (Self, Vec<Finding>) {
        let lines = text.lines().enumerate().skip_while(|(_, line)| *line != HEADING).skip(1);
        let section = lines.take_while(|(_, line)| !line.starts_with("## "));
        // Skips the table's head and the line below it.
        let rows = section.filter(|(_, line)| line.starts_with('|')).skip(2);
        let (mut entries, mut findings) = (Vec::new(), Vec::new());
        for (number, row) in rows {
            match Entry::parse(row) {
                Some(entry) => entries.push(entry),
                None => findings.push(unreadable(path, number + 1, format!("the row `{row}`"))),
            }
        }
        if entries.is_empty() {
            findings.push(unreadable(path, 0, format!("no table below \"{HEADING}\"")));
        }
        (Self { entries }, findings)
    }

    /// Searches for the words, ignoring case.
    pub(crate) fn check(&self, source: &Source) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (number, line) in source.lines.iter().enumerate() {
            let words = Words::new(line);
            let found = self.entries.iter().filter(|entry| entry.is_in(&words));
            findings.extend(found.map(|entry| Finding {
                path: source.path.clone(),
                line: number + 1,
                severity: Severity::Fails,
                what: format!("the word `{}`", entry.word),
                why: "each thing has one word in code, API, docs and console, so that it can be found",
                remedy: format!("say {} (docs/glossary.md)", entry.instead),
            }));
        }
        findings
    }
}

/// Words of one source line, separated by the places in which the glossary forbids them.
struct Words {
    /// Name of the function that the line declares, as written.
    function: Option<String>,
    /// Words in the name of the function or type that the line declares outside tests.
    item: Option<String>,
    /// All words in the line's names and comment.
    all: String,
}

impl Words {
    fn new(line: &Line) -> Self {
        let declared = declared(&line.code);
        let item = declared.as_ref().filter(|_| !line.in_test);
        Self {
            item: item.map(|(_, name)| split_names(name)),
            function: declared.filter(|(kind, _)| *kind == "fn").map(|(_, name)| name.to_owned()),
            all: split_names(&format!("{} {}", line.code.trim(), line.comment.trim())),
        }
    }
}

impl Entry {
    fn parse(row: &str) -> Option<Self> {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [word, scope, instead] = cells.as_slice() else { return None };
        let scope = match *scope {
            "function" => Scope::Function,
            "item" => Scope::Item,
            "anywhere" => Scope::Anywhere,
            _ => return None,
        };
        let is_complete = !word.is_empty() && !instead.is_empty();
        is_complete.then(|| Self {
            word: word.to_lowercase(),
            scope,
            instead: (*instead).to_owned(),
        })
    }

    fn is_in(&self, words: &Words) -> bool {
        match self.scope {
            Scope::Function => words.function.as_ref().is_some_and(|name| {
                let begins = words.item.as_ref().and_then(|item| item.strip_prefix(&self.word));
                *name == self.word || begins.is_some_and(|rest| rest.starts_with(' '))
            }),
            Scope::Item => words.item.as_ref().is_some_and(|name| has_word(name, &self.word)),
            Scope::Anywhere => has_word(&words.all, &self.word),
        }
    }
}

/// Returns the kind of item that a line declares, and its name.
fn declared(code: &str) -> Option<(&str, &str)> {
    const KINDS: [&str; 6] = ["fn", "struct", "enum", "trait", "type", "union"];
    let mut words = code.split_whitespace().skip_while(|word| !KINDS.contains(word));
    let (kind, rest) = (words.next()?, words.next()?);
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    Some((kind, &rest[..rest.find(|letter| !is_part(letter)).unwrap_or(rest.len())]))
}

/// Splits names into words: `find_route` and `RouteTable` both contain the word route.
fn split_names(code: &str) -> String {
    let mut words = String::with_capacity(code.len() + code.len() / 4);
    let mut previous_is_lower = false;
    for character in code.chars() {
        if character.is_uppercase() && previous_is_lower {
            words.push(' ');
        }
        previous_is_lower = character.is_lowercase();
        words.extend(if character == '_' {
            " ".chars().next()
        } else {
            character.to_lowercase().next()
        });
    }
    words
}

fn unreadable(path: &str, line: usize, what: String) -> Finding {
    Finding {
        path: path.to_owned(),
        line,
        severity: Severity::Fails,
        what,
        why: "a row that cannot be read is not enforced",
        remedy: "write `| word | function, item or anywhere | what to say |`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "## Words that names avoid\n\n| Word | Where | Say |\n|---|---|---|\n\
        | of | function | from_ |\n| told | item | report |\n| vhost | anywhere | host |\n\
        | backend server | anywhere | node |\n\n## Further\n\n| a | b |\n";

    fn glossary() -> Glossary {
        let (glossary, findings) = Glossary::parse("docs/a.md", TABLE);
        assert!(findings.is_empty(), "{findings:?}");
        glossary
    }

    #[test]
    fn each_word_is_looked_for_where_the_table_says() {
        let cases = [
            ("fn of(a: u8) {}", 1),
            ("fn of_route() {}", 1),
            ("pub fn of<T>() {}", 1),
            ("fn is_told() {}", 1),
            ("struct ToldLine;", 1),
            ("let told = 1;", 0),
            ("fn untold() {}", 0),
            ("// it was told so", 0),
            ("fn find_vhost() {}", 1),
            ("struct VhostTable;", 1),
            ("// the backend server answered", 1),
            ("let hosts = vhosts_of(x);", 0),
            ("let s = \"vhost\";", 0),
        ];
        for (text, expected) in cases {
            let source = Source::parse("crates/a/src/lib.rs", text);
            assert_eq!(glossary().check(&source).len(), expected, "{text}");
        }
    }

    #[test]
    fn tests_are_sentences() {
        let source = Source::parse("crates/a/src/b/tests.rs", "fn it_is_told_so() {}\nfn of() {}");
        let lines: Vec<usize> = glossary().check(&source).iter().map(|it| it.line).collect();
        assert_eq!(lines, [2]);
    }

    #[test]
    fn a_law_that_cannot_be_read_is_a_finding() {
        for text in [
            "",
            "## Words that names avoid\n\nnothing\n",
            "## Words that names avoid\n\n| Word | Where | Say |\n|---|---|---|\n| a | everywhere | b |\n",
            "## Words that names avoid\n\n| Word | Where | Say |\n|---|---|---|\n| a | item |\n",
        ] {
            assert!(!Glossary::parse("docs/a.md", text).1.is_empty(), "{text}");
        }
    }
}
