//! Encoding of queries and forms.

/// Percent-encodes everything except the unreserved characters of RFC 3986 §2.3.
pub(crate) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Encodes pairs as a form: `name=value&…`.
pub(crate) fn encode(pairs: &[(&str, String)]) -> String {
    let pairs = pairs.iter().map(|(name, value)| format!("{}={}", escape(name), escape(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// Appends pairs to the query of an address.
pub(crate) fn with_query(address: &str, pairs: &[(&str, String)]) -> String {
    if pairs.is_empty() {
        return address.to_owned();
    }
    let (address, fragment) = match address.split_once('#') {
        Some((address, fragment)) => (address, format!("#{fragment}")),
        None => (address, String::new()),
    };
    let joint = match address.split_once('?') {
        None => "?",
        Some((_, "")) => "",
        Some(_) => "&",
    };
    format!("{address}{joint}{}{fragment}", encode(pairs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_for_themselves_wherever_they_are_put() {
        let pairs = [("a", "b c&d=é\r\n".to_owned()), ("e", String::new())];
        assert_eq!(encode(&pairs), "a=b%20c%26d%3D%C3%A9%0D%0A&e=");
        for (address, expected) in [
            ("https://a/b", "https://a/b?x=1"),
            ("https://a/b?", "https://a/b?x=1"),
            ("https://a/b?c=d#f", "https://a/b?c=d&x=1#f"),
        ] {
            assert_eq!(with_query(address, &[("x", "1".to_owned())]), expected);
        }
        assert_eq!(with_query("https://a/b", &[]), "https://a/b");
    }
}
