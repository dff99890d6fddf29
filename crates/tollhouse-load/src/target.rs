//! Target of a case: parsed URL and resolved addresses.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use crate::case::Case;
use crate::error::BenchError;

/// Destination of connections: addresses, or a socket's path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// TCP; never empty. Connections use the addresses of a name in turn.
    Tcp(Vec<SocketAddr>),
    /// Path of a Unix domain socket.
    Unix(PathBuf),
}

/// Parsed URL of a case, with resolved addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub scheme: String,
    pub is_tls: bool,
    pub host: String,
    /// Port; by default that of the scheme.
    pub port: u16,
    /// Value of `Host` or `:authority`: the host, with the port unless it is the scheme's default.
    pub authority: String,
    /// Path with query; `/` by default.
    pub path: String,
    /// Credentials from the URL, as `user:password`.
    pub credentials: Option<String>,
    pub endpoint: Endpoint,
}

/// Supported schemes: name, whether TLS is used, default port.
const SCHEMES: [(&str, bool, u16); 8] = [
    ("http", false, 80),
    ("https", true, 443),
    ("h2c", false, 80),
    ("ws", false, 80),
    ("wss", true, 443),
    ("grpc", false, 80),
    ("grpcs", true, 443),
    ("tcp", false, 0),
];

impl Target {
    /// Parses the URL of a case and resolves its name (blocking).
    ///
    /// # Errors
    /// If the URL is invalid, or the name has no address.
    pub fn try_from_case(case: &Case) -> Result<Self, BenchError> {
        let error = |error: TargetError| BenchError::Target {
            target: case.target.clone(),
            why: error.to_string(),
        };
        let mut target = parse(&case.target).map_err(error)?;
        target.endpoint = match &case.connect_to {
            Some(place) => match place.strip_prefix("unix:") {
                Some(path) => Endpoint::Unix(PathBuf::from(path)),
                None => resolve(place).map_err(error)?,
            },
            None => resolve_pair(&target.host, target.port).map_err(error)?,
        };
        Ok(target)
    }

    /// Returns one of the addresses, in turn; `None` for a Unix socket.
    pub fn address(&self, turn: usize) -> Option<SocketAddr> {
        match &self.endpoint {
            Endpoint::Tcp(addresses) => addresses.get(turn % addresses.len().max(1)).copied(),
            Endpoint::Unix(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}{}", self.scheme, self.authority, self.path)
    }
}

/// Error for an invalid or unresolvable target.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TargetError {
    #[error("is empty; write a URL such as http://127.0.0.1:9080/")]
    Empty,
    /// The URL contains characters that a request line cannot carry.
    #[error("has a space or control character in it; write it percent-encoded")]
    Control,
    #[error("scheme `{0}` is not one of http, https, h2c, ws, wss, grpc, grpcs, tcp")]
    Scheme(String),
    /// The scheme has no default port, and none is given.
    #[error("has no port; write host:port")]
    NoPort,
    /// The closing bracket of an IPv6 address is missing.
    #[error("has `[` without `]`")]
    OpenBracket,
    #[error("has no host")]
    NoHost,
    /// The port is not a number from 1 to 65535.
    #[error("`{0}` is not a port; write 1 to 65535")]
    Port(String),
    /// The setting `connect_to` has no port.
    #[error("connect_to `{0}` has no port; write host:port")]
    NoPortToConnectTo(String),
    #[error("{host} not found: {error}")]
    NotFound {
        host: String,
        #[source]
        error: std::io::Error,
    },
    #[error("{0} has no address")]
    NoAddress(String),
}

/// Parses a URL without resolving its name.
pub(crate) fn parse(url: &str) -> Result<Target, TargetError> {
    if url.is_empty() {
        return Err(TargetError::Empty);
    }
    if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(TargetError::Control);
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("http", url));
    let scheme = scheme.to_ascii_lowercase();
    let known = SCHEMES.iter().find(|(name, ..)| *name == scheme);
    let Some((_, is_tls, port_default)) = known.copied() else {
        return Err(TargetError::Scheme(scheme));
    };
    // A fragment is never sent (RFC 9110, section 7.1).
    let rest = rest.split('#').next().unwrap_or_default();
    let at = rest.find(['/', '?']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(at);
    let path = match path.as_bytes().first() {
        None => "/".to_owned(),
        Some(b'?') => format!("/{path}"),
        Some(_) => path.to_owned(),
    };
    // Split at the last `@`: a password may contain one, a host cannot.
    let (credentials, authority) = match authority.rsplit_once('@') {
        Some((credentials, authority)) => (Some(credentials.to_owned()), authority),
        None => (None, authority),
    };
    let (host, port) = split_authority(authority)?;
    let port = match port.unwrap_or(port_default) {
        0 => return Err(TargetError::NoPort),
        port => port,
    };
    let bracketed_host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
    let authority =
        if port == port_default { bracketed_host } else { format!("{bracketed_host}:{port}") };
    Ok(Target {
        scheme,
        is_tls,
        host: host.to_owned(),
        port,
        authority,
        path,
        credentials,
        endpoint: Endpoint::Tcp(Vec::new()),
    })
}

/// Splits into the host without brackets and the port, if given.
fn split_authority(authority: &str) -> Result<(&str, Option<u16>), TargetError> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(TargetError::OpenBracket)?;
            (host, after.strip_prefix(':'))
        }
        None => match authority.rsplit_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    if host.is_empty() {
        return Err(TargetError::NoHost);
    }
    let port = port.map(|port| {
        let number = port.parse::<u16>().ok().filter(|number| *number > 0);
        number.ok_or_else(|| TargetError::Port(port.to_owned()))
    });
    Ok((host, port.transpose()?))
}

fn resolve(place: &str) -> Result<Endpoint, TargetError> {
    let (host, port) = split_authority(place)?;
    let port = port.ok_or_else(|| TargetError::NoPortToConnectTo(place.to_owned()))?;
    resolve_pair(host, port)
}

fn resolve_pair(host: &str, port: u16) -> Result<Endpoint, TargetError> {
    let not_found = |error| TargetError::NotFound { host: host.to_owned(), error };
    let found = (host, port).to_socket_addrs().map_err(not_found)?;
    let addresses: Vec<SocketAddr> = found.collect();
    if addresses.is_empty() {
        return Err(TargetError::NoAddress(host.to_owned()));
    }
    Ok(Endpoint::Tcp(prefer_v4(addresses)))
}

/// Prefers IPv4 addresses. A name with IPv4 and IPv6 addresses, such as `localhost`, often has a
/// server behind only one, and test servers usually listen on IPv4.
fn prefer_v4(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let v4: Vec<SocketAddr> = addresses.iter().copied().filter(SocketAddr::is_ipv4).collect();
    if v4.is_empty() { addresses } else { v4 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, host, port, authority, path, is_tls) in [
            ("http://a.example", "a.example", 80, "a.example", "/", false),
            ("https://a.example:443/x?y=1#z", "a.example", 443, "a.example", "/x?y=1", true),
            ("127.0.0.1:9080/x", "127.0.0.1", 9080, "127.0.0.1:9080", "/x", false),
            ("ws://[::1]:81?q", "::1", 81, "[::1]:81", "/?q", false),
            ("grpc://h:8091", "h", 8091, "h:8091", "/", false),
        ] {
            let target = parse(url).expect(url);
            assert_eq!((target.host.as_str(), target.port), (host, port), "{url}");
            assert_eq!(
                (target.authority.as_str(), target.path.as_str()),
                (authority, path),
                "{url}"
            );
            assert_eq!(target.is_tls, is_tls, "{url}");
        }
        assert_eq!(parse("http://u:p@h/").expect("url").credentials.as_deref(), Some("u:p"));
    }

    #[test]
    fn a_bad_url_is_named() {
        for (url, part) in [
            ("", "is empty"),
            ("ftp://h/", "scheme `ftp`"),
            ("http://", "no host"),
            ("http://h:0/", "not a port"),
            ("http://h:99999/", "not a port"),
            ("tcp://h", "has no port"),
            ("http://[::1/", "without"),
            ("http://h/a b", "space"),
        ] {
            let error = parse(url).expect_err(url).to_string();
            assert!(error.contains(part), "{url}: {error}");
        }
    }
}
