//! Address of a server: scheme, host and port.

use std::str::FromStr;

use hyper::Uri;

use super::ClientError;

/// Server of an absolute URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub is_tls: bool,
    /// Host without the brackets of an IPv6 address.
    pub host: String,
    pub port: u16,
    /// Host and port as the URL has them.
    pub authority: String,
}

impl Server {
    /// Takes the server from a URL with the scheme `http` or `https`. Its path is ignored, and so
    /// are credentials.
    ///
    /// # Errors
    /// If scheme, host or port are missing or invalid.
    pub fn from_uri(uri: &Uri) -> Result<Self, ClientError> {
        let (is_tls, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(ClientError::Address),
        };
        let authority = uri.authority().ok_or(ClientError::Address)?;
        let name = authority.as_str().rsplit('@').next().unwrap_or_default();
        let port = match (authority.port_u16(), name.strip_prefix(authority.host())) {
            (Some(port), _) => port,
            (None, Some("" | ":")) => default_port,
            (None, _) => return Err(ClientError::Address),
        };
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        if host.is_empty() {
            return Err(ClientError::Address);
        }
        Ok(Self { is_tls, host, port, authority: name.to_owned() })
    }
}

impl FromStr for Server {
    type Err = ClientError;

    fn from_str(text: &str) -> Result<Self, ClientError> {
        Self::from_uri(&text.parse().map_err(|_| ClientError::Address)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_taken_from_its_url() {
        for (url, expected) in [
            ("http://127.0.0.1:9180", Some(("127.0.0.1", 9180, "127.0.0.1:9180"))),
            ("http://gateway/a?b", Some(("gateway", 80, "gateway"))),
            ("https://gateway:/", Some(("gateway", 443, "gateway:"))),
            ("https://[::1]:1/", Some(("::1", 1, "[::1]:1"))),
            ("http://user:password@ocsp.test:81/a", Some(("ocsp.test", 81, "ocsp.test:81"))),
            ("http://127.0.0.1:99999/", None),
            ("ftp://a/", None),
            ("/a", None),
            ("http://", None),
            ("http:///path", None),
            ("http://:80", None),
            ("http://a b/", None),
        ] {
            let server = url.parse::<Server>().ok();
            let parts = server.as_ref().map(|it| (&*it.host, it.port, &*it.authority));
            assert_eq!(parts, expected, "{url}");
            assert!(server.is_none_or(|server| server.is_tls == url.starts_with("https")));
        }
    }
}
