//! Names of headers as servers read them that turn names into variables: CGI, FastCGI, WSGI, Rack.
//!
//! Such a reader writes letters in one case, and one byte for whatever separates words. What a
//! name means to the gateway itself is not known here.

/// Whether two names are one to a reader that folds case and separators: `X-Real-IP`, `x_real_ip`
/// and `X.Real.Ip` are.
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
