//! What people type to find objects, and which objects of a collection it finds. Everything is asked of the index; no
//! object is read.

use crate::context::Admin;
use crate::index::facts::{Facts, Listed};
use crate::limits::OBJECTS_PER_TURN;
use crate::reply::Reply;

/// Longest text that is searched for, in bytes, and the most words in it.
const SEARCH_BYTES_MAX: usize = 256;
const WORDS_MAX: usize = 16;

/// Words that an object must all have.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search(Vec<Word>);

/// A word in lower case, and where it is looked for.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    /// In id, name, hosts, paths and labels.
    Anywhere(String),
    Host(String),
    Label(String),
    /// The whole name of a plugin.
    Plugin(String),
    /// The path of an object that is named: `upstreams/1`.
    Uses(String),
    /// Whether it is switched off.
    Off(bool),
}

impl Search {
    /// Of what somebody has typed.
    pub(super) fn parse(text: &str) -> Result<Self, Reply> {
        if text.len() > SEARCH_BYTES_MAX || text.split_whitespace().count() > WORDS_MAX {
            let text = format!("q is longer than {SEARCH_BYTES_MAX} bytes or {WORDS_MAX} words");
            return Err(Reply::bad(text));
        }
        text.split_whitespace().map(word).collect::<Result<_, _>>().map(Self)
    }

    fn finds(&self, path: &str, facts: &Facts) -> bool {
        self.0.iter().all(|word| word.finds(path, facts))
    }
}

fn word(text: &str) -> Result<Word, Reply> {
    let value = |value: &str| value.to_ascii_lowercase();
    Ok(match text.split_once(':') {
        Some(("host", rest)) => Word::Host(value(rest)),
        Some(("label", rest)) => Word::Label(value(rest)),
        Some(("plugin", rest)) => Word::Plugin(rest.to_owned()),
        Some(("uses", rest)) => Word::Uses(rest.to_owned()),
        Some(("status", "off")) => Word::Off(true),
        Some(("status", "on")) => Word::Off(false),
        Some(("status", _)) => return Err(Reply::bad("status: is on or off")),
        // Addresses have colons too.
        Some(_) | None => Word::Anywhere(value(text)),
    })
}

impl Word {
    fn finds(&self, path: &str, facts: &Facts) -> bool {
        let Listed { name, uris, hosts, labels, plugins, is_off } = &facts.listed;
        match self {
            Self::Anywhere(text) => {
                let id = path.split_once('/').map_or(path, |(_, id)| id);
                let texts = name.iter().chain(uris).chain(hosts).chain(labels);
                contains(id, text) || texts.into_iter().any(|it| contains(it, text))
            }
            Self::Host(text) => hosts.iter().any(|host| contains(host, text)),
            Self::Label(text) => labels.iter().any(|label| label.eq_ignore_ascii_case(text)),
            Self::Plugin(text) => plugins.iter().any(|plugin| **plugin == **text),
            Self::Uses(text) => facts.references.iter().any(|(target, _)| **target == **text),
            Self::Off(wanted) => is_off == wanted,
        }
    }
}

/// Paths of all objects of a collection that are found, by creation; others get their turn between.
pub(super) async fn matching(admin: &Admin, collection: &str, search: &Search) -> Vec<String> {
    let mut found = Vec::new();
    let mut last = None;
    loop {
        let mut seen = 0;
        let after = last.take();
        // The index is locked for a turn, and never while others have theirs.
        {
            let known = admin.index.known();
            for creation in known.created_after(collection, after.as_ref()).take(OBJECTS_PER_TURN) {
                seen += 1;
                let path = &*creation.1;
                let is_found = search.0.is_empty()
                    || known.facts(path).is_some_and(|facts| search.finds(path, facts));
                if is_found {
                    found.push(path.to_owned());
                }
                if seen == OBJECTS_PER_TURN {
                    last = Some(creation.clone());
                    break;
                }
            }
        }
        if seen < OBJECTS_PER_TURN {
            return found;
        }
        tokio::task::yield_now().await;
    }
}

/// Whether lower-case `search` is found, whatever the case of ASCII letters. Allocates nothing: it looks at
/// hundreds of thousands of texts.
fn contains(text: &str, search: &str) -> bool {
    let (text, search) = (text.as_bytes(), search.as_bytes());
    search.is_empty() || text.windows(search.len()).any(|part| part.eq_ignore_ascii_case(search))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_found_in_any_case() {
        assert!(contains("Orders-API", "ders-a"));
        assert!(contains("x", ""));
        assert!(!contains("or", "orders"));
    }

    #[test]
    fn words_are_bounded_and_unknown_states_refused() {
        assert!(Search::parse(&"x".repeat(SEARCH_BYTES_MAX + 1)).is_err());
        assert!(Search::parse(&"x ".repeat(WORDS_MAX + 1)).is_err());
        assert!(Search::parse("status:maybe").is_err());
        assert_eq!(Search::parse("  ").ok(), Some(Search::default()));
    }
}
