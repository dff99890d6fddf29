//! Parser for version strings of database engines. The oldest supported version is defined in the
//! module of each engine.

/// Returns the first three numbers of a version: `10.11.6-MariaDB` gives 10, 11, 6. Missing numbers
/// are 0.
pub(super) fn numbers(version: &str) -> [u64; 3] {
    let mut parts =
        version.split(|c: char| !c.is_ascii_digit() && c != '.').next().unwrap_or("").split('.');
    std::array::from_fn(|_| parts.next().and_then(|part| part.parse().ok()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers() {
        let table = [
            ("10.11.6-MariaDB-0+deb12u1", [10, 11, 6]),
            ("15.4 (Debian 15.4-1)", [15, 4, 0]),
            ("3.4.23", [3, 4, 23]),
            ("", [0, 0, 0]),
        ];
        for (text, expected) in table {
            assert_eq!(numbers(text), expected, "{text}");
        }
        assert!(numbers("3.10.0") > numbers("3.9.9"));
    }
}
