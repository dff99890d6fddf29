//! The argument `q` of registry lists: words that must all occur in an object's texts, ignoring
//! case.

use crate::arguments::Arguments;
use crate::reply::Reply;

/// Maximum length of a search text in bytes, and maximum number of its words.
const BYTES_MAX: usize = 256;
const WORDS_MAX: usize = 16;

/// Search words, in lower case.
pub(super) struct Words(Vec<String>);

impl Words {
    /// Parses the search words in the argument `q`.
    pub(super) fn parse(arguments: &Arguments) -> Result<Self, Reply> {
        let text = arguments.get("q").unwrap_or_default();
        if text.len() > BYTES_MAX || text.split_whitespace().count() > WORDS_MAX {
            let text = format!("q is longer than {BYTES_MAX} bytes or {WORDS_MAX} words");
            return Err(Reply::bad(text));
        }
        Ok(Self(text.split_whitespace().map(str::to_lowercase).collect()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether each word occurs in one of the texts.
    pub(super) fn admit<'t, T>(&self, texts: impl Fn() -> T) -> bool
    where
        T: IntoIterator<Item = &'t str>,
    {
        self.0.iter().all(|word| texts().into_iter().any(|text| contains(text, word)))
    }
}

/// Whether `text` contains the lower-case `word`, ignoring case. ASCII text is compared without
/// allocation, because a search compares hundreds of thousands of texts.
fn contains(text: &str, word: &str) -> bool {
    if text.is_ascii() {
        let (text, word) = (text.as_bytes(), word.as_bytes());
        return text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    }
    text.to_lowercase().contains(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_words_are_found_in_any_case_and_language() {
        let texts = || ["Orders-API", "区域/Ü"];
        for (query, expected) in [
            ("", true),
            ("q=ders", true),
            ("q=api+%C3%BC", true),
            ("q=%E5%8C%BA", true),
            ("q=ders+x", false),
        ] {
            let words = Words::parse(&Arguments::parse(query)).expect("it is short");
            assert_eq!(words.admit(texts), expected, "{query}");
        }
        assert!(
            Words::parse(&Arguments::parse(&format!("q={}", "x".repeat(BYTES_MAX + 1)))).is_err()
        );
    }
}
