//! Closest known word to a misspelt one, for "did you mean" in messages.

/// Maximum length in characters of a word to compare; the cost is quadratic, and a longer word is
/// not a typing error.
pub const WORD_CHARS_MAX: usize = 64;

/// Number of letters per tolerated mistake.
const CHARS_A_MISTAKE: usize = 3;

/// Returns the known word with the fewest differences from `word`: letters inserted, omitted,
/// replaced, or swapped with a neighbour. `None` if the closest differs by more than a third of its
/// letters. Case is ignored; among equally close words, the first one is chosen.
pub fn nearest<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = folded(word)?;
    let mut best: Option<(usize, &'a str)> = None;
    for candidate in known {
        let Some(letters) = folded(candidate) else { continue };
        let (word_chars, chars) = (word.chars().count(), letters.chars().count());
        let allowed = word_chars.max(chars).div_ceil(CHARS_A_MISTAKE);
        if word_chars.abs_diff(chars) > allowed {
            continue;
        }
        let distance = strsim::osa_distance(&word, &letters);
        if distance <= allowed && best.is_none_or(|(nearest, _)| distance < nearest) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Option<String> {
    let chars = word.chars().take(WORD_CHARS_MAX + 1).count();
    (1..=WORD_CHARS_MAX).contains(&chars).then(|| word.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_known_word_is_suggested() {
        let known = ["listen", "workers", "access_log", "admin", "data_dir", "resources"];
        let table = [
            ("listne", Some("listen")),
            ("worker", Some("workers")),
            ("acess-log", Some("access_log")),
            ("ADMIN", Some("admin")),
            ("datadir", Some("data_dir")),
            ("plugins", None),
            ("x", None),
            ("", None),
        ];
        for (word, expected) in table {
            assert_eq!(nearest(word, known.into_iter()), expected, "{word}");
        }
        let endless = "w".repeat(10_000);
        assert_eq!(nearest(&endless, known.into_iter()), None);
        assert_eq!(nearest("worker", [endless.as_str()].into_iter()), None);
    }
}
