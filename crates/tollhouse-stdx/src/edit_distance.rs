//! The known word nearest to a misspelt one, for "did you mean" in messages to people.

/// Longest word compared, in characters: the cost is quadratic and a longer word is not a typing
/// error.
pub const WORD_CHARS_MAX: usize = 64;

/// Letters of a word for each mistake that still counts as the same word.
const CHARS_A_MISTAKE: usize = 3;

/// The known word that differs from `word` by the fewest mistakes: a letter added, left out,
/// replaced, or swapped with its neighbour. `None` when even the nearest differs by more than a
/// third of its letters. Case does not count; of equally near words the first known one wins.
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
