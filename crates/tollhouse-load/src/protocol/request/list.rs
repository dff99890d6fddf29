//! List of requests used in turn: its file format and its order.

use crate::case::UrlEntry;
use crate::error::BenchError;

/// Maximum number of entries, to bound the generator's memory.
const ENTRIES_MAX: usize = 1_000_000;
/// Maximum sum of the weights, which is the length of one turn through the list.
const TURN_MAX: u64 = 4_000_000;

/// Parses lines of the form `[METHOD] URL [weight]`; `#` begins a comment.
pub(super) fn parse(text: &str) -> Result<Vec<UrlEntry>, String> {
    let mut entries = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> =
            line.split_whitespace().take_while(|w| !w.starts_with('#')).collect();
        let is_url = |word: &str| word.starts_with('/') || word.contains("://");
        let (method, rest) = match words.as_slice() {
            [] => continue,
            [url, rest @ ..] if is_url(url) => (None, (url, rest)),
            [method, url, rest @ ..] if is_url(url) => (Some((*method).to_owned()), (url, rest)),
            _ => return Err(format!("line {}: write `[METHOD] URL [weight]`", index + 1)),
        };
        let weight = match rest.1 {
            [] => 1,
            [weight] => weight
                .parse()
                .map_err(|_| format!("line {}: `{weight}` is not a weight", index + 1))?,
            _ => return Err(format!("line {}: too many words", index + 1)),
        };
        if entries.len() == ENTRIES_MAX {
            return Err(format!("more than {ENTRIES_MAX} requests"));
        }
        entries.push(UrlEntry { method, url: (*rest.0).to_owned(), weight });
    }
    if entries.is_empty() { Err("holds no request".into()) } else { Ok(entries) }
}

/// Returns the order of one turn through the entries: each as often as its weight, spread evenly.
pub(super) fn turn_of(entries: &[UrlEntry]) -> Result<Vec<u32>, BenchError> {
    if entries.len() == 1 {
        return Ok(Vec::new());
    }
    let total: u64 = entries.iter().map(|entry| u64::from(entry.weight)).sum();
    if total == 0 || total > TURN_MAX {
        let why = format!("the weights add up to {total}; they must add up to 1 to {TURN_MAX}");
        return Err(BenchError::Case { key: "http.urls".into(), why });
    }
    if entries.iter().all(|entry| entry.weight == 1) {
        return Ok((0..entries.len() as u32).collect());
    }
    // The n-th of w occurrences of an entry is placed at (n + ½)/w of the turn.
    let mut places: Vec<(f64, u32)> = Vec::new();
    for (index, entry) in entries.iter().enumerate() {
        let weight = f64::from(entry.weight);
        places.extend((0..entry.weight).map(|n| ((f64::from(n) + 0.5) / weight, index as u32)));
    }
    places.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    Ok(places.into_iter().map(|(_, index)| index).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_as_often_as_their_weight_and_spread_evenly() {
        let entries = parse("/a 3\nPOST http://127.0.0.1:8080/b # half\n").expect("list");
        assert_eq!(entries[1].method.as_deref(), Some("POST"));
        assert_eq!(turn_of(&entries).expect("turn"), [0, 0, 1, 0]);
    }

    #[test]
    fn a_bad_list_is_named_by_its_line() {
        for (list, part) in
            [("/a\nb c d", "line 2"), ("/a x", "not a weight"), ("# only", "no request")]
        {
            assert!(parse(list).is_err_and(|error| error.contains(part)), "{list}");
        }
    }

    #[test]
    fn weights_that_lead_nowhere_are_refused() {
        assert!(turn_of(&parse("/a 0\n/b 0").expect("list")).is_err());
        assert!(turn_of(&parse("/a 4000000\n/b 4000000").expect("list")).is_err());
    }
}
