//! Parser for the `http://` or `https://` address of a service.

/// Scheme of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
        }
    }

    fn default_port(self) -> u16 {
        match self {
            Scheme::Http => 80,
            Scheme::Https => 443,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub scheme: Scheme,
    /// Name or address; IPv6 without brackets.
    pub host: String,
    pub port: u16,
    /// Value of `Host`: host and port, without the scheme's default port.
    pub authority: String,
    /// Path and query; at least `/`.
    pub path: String,
}

/// Why the address of a service is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("bad uri {uri:?}: {reason}")]
pub(crate) struct TargetError {
    uri: String,
    reason: &'static str,
}

impl Target {
    /// Parses an address.
    ///
    /// # Errors
    /// If the address is invalid.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let refused = |reason| TargetError { uri: text.to_owned(), reason };
        let (scheme, rest) = text.split_once("://").ok_or_else(|| refused("no scheme"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "http" => Scheme::Http,
            "https" => Scheme::Https,
            _ => return Err(refused("the scheme is neither http nor https")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
        let (host, port) = split_port(authority).ok_or_else(|| refused("bad port"))?;
        if host.is_empty() {
            return Err(refused("no host"));
        }
        let port = port.unwrap_or(scheme.default_port());
        let bracketed = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let is_default = port == scheme.default_port();
        let authority = if is_default { bracketed } else { format!("{bracketed}:{port}") };
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.into() } else { format!("/{path}") };
        Ok(Target { scheme, host: host.into(), port, authority, path })
    }
}

/// Splits host (without brackets) and port; `None` if the port is not a number.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some((host, rest)) = authority.strip_prefix('[').and_then(|text| text.split_once(']')) {
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    match authority.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart() {
        for (text, expected) in [
            ("http://127.0.0.1:1980/auth?a=b", "Http 127.0.0.1 1980 127.0.0.1:1980 /auth?a=b"),
            ("http://a.com", "Http a.com 80 a.com /"),
            ("http://a.com:80/", "Http a.com 80 a.com /"),
            ("HTTPS://a.com?x=1", "Https a.com 443 a.com /?x=1"),
            ("https://a.com:8443/p#f", "Https a.com 8443 a.com:8443 /p"),
            ("http://[::1]:90/", "Http ::1 90 [::1]:90 /"),
            ("http://[::1]", "Http ::1 80 [::1] /"),
            ("http://user:pass@a.com/", "Http a.com 80 a.com /"),
        ] {
            let target = Target::parse(text).expect(text);
            let Target { scheme, host, port, authority, path } = target;
            assert_eq!(format!("{scheme:?} {host} {port} {authority} {path}"), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in
            ["", "a.com", "ftp://a.com", "http://", "http://:80", "http://a:b", "http://a:70000"]
        {
            assert!(Target::parse(text).is_err(), "{text}");
        }
    }
}
