//! Counts with their noun in English, such as `1 route` and `2 routes`.

use std::fmt::Display;

/// Formats a count with a noun whose plural is regular: `1 entry`, `2 entries`.
pub fn counted<N: Display + PartialEq + From<u8>>(count: N, noun: &str) -> String {
    if count == N::from(1) {
        return format!("1 {noun}");
    }
    match noun.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'i', 'o', 'u']) => format!("{count} {stem}ies"),
        _ => format!("{count} {noun}s"),
    }
}

/// Formats a count with a phrase that has its noun first: `1 entry was`, `2 entries were`.
pub fn counted_as<N>(count: N, one: &str, many: &str) -> String
where
    N: Display + PartialEq + From<u8>,
{
    if count == N::from(1) { format!("1 {one}") } else { format!("{count} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_is_singular() {
        for (count, noun, expected) in [
            (0_u64, "route", "0 routes"),
            (1, "route", "1 route"),
            (2, "route", "2 routes"),
            (2, "entry", "2 entries"),
            (2, "key", "2 keys"),
            (1, "retry", "1 retry"),
        ] {
            assert_eq!(counted(count, noun), expected);
        }
        assert_eq!(counted_as(1_usize, "entry was", "entries were"), "1 entry was");
        assert_eq!(counted_as(3_usize, "entry was", "entries were"), "3 entries were");
    }
}
