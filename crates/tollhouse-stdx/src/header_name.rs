//! Comparison of header names as seen by servers that convert names to variables: CGI, FastCGI,
//! WSGI, Rack.
//!
//! Such servers ignore case and map all separators to one character. The gateway's own treatment of
//! names is defined elsewhere.

/// Whether two names are equal after folding case and separators, such as `X-Real-IP`, `x_real_ip`
/// and `X.Real.Ip`.
#[inline]
pub fn is_same_folded(one: &[u8], other: &[u8]) -> bool {
    let is_same = |one: u8, other: u8| {
        one.eq_ignore_ascii_case(&other)
            || !(one.is_ascii_alphanumeric() || other.is_ascii_alphanumeric())
    };
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| is_same(*one, *other))
}

#[cfg(test)]
mod tests {
    use super::is_same_folded;

    #[test]
    fn case_and_separators_make_no_other_name() {
        for (one, other, expected) in [
            ("X-Real-IP", "x_real_ip", true),
            ("X-Real-IP", "X.REAL_ip", true),
            ("X-Real-IP", "XaReal-IP", false),
            ("X-Real-IP", "X-Real-I", false),
            ("X-Real-IP", "X--Real-I", false),
            ("", "", true),
        ] {
            assert_eq!(is_same_folded(one.as_bytes(), other.as_bytes()), expected, "{one} {other}");
        }
    }
}
