//! Schemes of `Authorization` (RFC 9110 §11.4).

/// Returns the credentials after this scheme, ignoring its case; `None` if the header has another
/// scheme.
pub(crate) fn credentials<'h>(header: &'h [u8], scheme: &str) -> Option<&'h [u8]> {
    let (name, rest) = header.split_at_checked(scheme.len())?;
    let is_meant = name.eq_ignore_ascii_case(scheme.as_bytes()) && rest.first() == Some(&b' ');
    is_meant.then(|| rest.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scheme_is_a_word_of_its_own_in_any_case() {
        for (header, expected) in [
            ("Basic YTpi", Some("YTpi")),
            ("bASIC   YTpi ", Some("YTpi")),
            ("Basic ", Some("")),
            ("Basic", None),
            ("BasicYTpi", None),
            ("x Basic YTpi", None),
            ("", None),
        ] {
            let found = credentials(header.as_bytes(), "Basic");
            assert_eq!(found, expected.map(str::as_bytes), "{header}");
        }
    }
}
