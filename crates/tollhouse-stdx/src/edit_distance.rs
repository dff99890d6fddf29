//! The known word nearest to a misspelt one, for "did you mean" in messages to people.

/// Longest word compared, in characters: the cost is quadratic and a longer word is no typing
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
        let allowed = word.len().max(letters.len()).div_ceil(CHARS_A_MISTAKE);
        if word.len().abs_diff(letters.len()) > allowed {
            continue;
        }
        let distance = distance(&word, &letters);
        if distance <= allowed && best.is_none_or(|(nearest, _)| distance < nearest) {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

fn folded(word: &str) -> Option<Vec<char>> {
    let letters: Vec<char> =
        word.chars().take(WORD_CHARS_MAX + 1).map(|letter| letter.to_ascii_lowercase()).collect();
    (1..=WORD_CHARS_MAX).contains(&letters.len()).then_some(letters)
}

/// Damerau-Levenshtein distance in its restricted form: no part is edited twice.
fn distance(from: &[char], to: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = Vec::with_capacity(to.len() + 1);
        current.push(row + 1);
        for (column, other) in to.iter().enumerate() {
            let replaced = above[column] + usize::from(letter != other);
            let mut cheapest = replaced.min(above[column + 1] + 1).min(current[column] + 1);
            let swapped =
                row > 0 && column > 0 && *letter == to[column - 1] && from[row - 1] == *other;
            if swapped {
                cheapest = cheapest.min(before[column - 1] + 1);
            }
            current.push(cheapest);
        }
        before = std::mem::replace(&mut above, current);
    }
    above[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_are_counted() {
        let table = [
            ("", "", 0),
            ("route", "route", 0),
            ("route", "routes", 1),
            ("route", "rout", 1),
            ("route", "rouse", 1),
            ("route", "rotue", 1),
            ("route", "", 5),
            ("kitten", "sitting", 3),
            ("ca", "abc", 3),
        ];
        for (from, to, expected) in table {
            let letters = |word: &str| word.chars().collect::<Vec<char>>();
            assert_eq!(distance(&letters(from), &letters(to)), expected, "{from} {to}");
            assert_eq!(distance(&letters(to), &letters(from)), expected, "{to} {from}");
        }
    }

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
