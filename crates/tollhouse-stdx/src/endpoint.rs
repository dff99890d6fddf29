//! Addresses that connections are opened to: an IP address with a port, or a Unix socket.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Mutex, PoisonError};

/// Beginning of the text of a Unix socket.
const UNIX: &str = "unix:";

/// Maximum length of a path in bytes: an address has room for 108, one of which ends the path
/// (`unix(7)`).
const PATH_BYTES_MAX: usize = 107;

/// Maximum number of different paths that the process can parse. They are never freed, so that an
/// endpoint can be copied without cost.
const PATHS_MAX: usize = 4_096;

/// Paths that were parsed so far; never freed, because an [`Endpoint`] refers to them.
static PATHS: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

/// An address that a connection is opened to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub enum Endpoint {
    /// An IP address with a port.
    Ip(SocketAddr),
    Unix(UnixPath),
}

/// Absolute path of a Unix socket.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UnixPath {
    /// Text after `unix:`.
    text: &'static str,
}

/// Reason why a text names no Unix socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum UnixPathError {
    /// The text does not begin with `unix:/`.
    #[error("expected unix: and an absolute path")]
    Relative,
    /// The path has blanks or control characters.
    #[error("the path has blanks or control characters")]
    Character,
    /// The kernel takes no path of that length.
    #[error("the path is longer than 107 bytes")]
    TooLong,
    /// The process has named as many paths as it can.
    #[error("too many different paths since the start; restart the gateway")]
    TooMany,
}

impl Endpoint {
    /// Returns the IP address; `None` for a Unix socket.
    #[inline]
    pub fn ip(self) -> Option<IpAddr> {
        match self {
            Self::Ip(address) => Some(address.ip()),
            Self::Unix(_) => None,
        }
    }

    /// Returns the port; `None` for a Unix socket.
    #[inline]
    pub fn port(self) -> Option<u16> {
        match self {
            Self::Ip(address) => Some(address.port()),
            Self::Unix(_) => None,
        }
    }

    /// Returns the host with another port; a Unix socket has one service only and stays unchanged.
    #[must_use]
    pub fn at_port(self, port: u16) -> Self {
        match self {
            Self::Ip(address) => Self::Ip(SocketAddr::new(address.ip(), port)),
            Self::Unix(path) => Self::Unix(path),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(address: SocketAddr) -> Self {
        Self::Ip(address)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(address) => address.fmt(out),
            Self::Unix(path) => path.fmt(out),
        }
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl UnixPath {
    /// Whether a text is meant to name a Unix socket.
    pub fn is_meant(text: &str) -> bool {
        text.starts_with(UNIX)
    }

    /// Reads `unix:/path`.
    ///
    /// # Errors
    /// The text names no Unix socket.
    pub fn parse(text: &str) -> Result<Self, UnixPathError> {
        let path = text.strip_prefix(UNIX).filter(|path| path.starts_with('/'));
        let path = path.ok_or(UnixPathError::Relative)?;
        if path.len() > PATH_BYTES_MAX {
            return Err(UnixPathError::TooLong);
        }
        if path.chars().any(|letter| letter.is_whitespace() || letter.is_control()) {
            return Err(UnixPathError::Character);
        }
        // A push leaves the list whole.
        let mut paths = PATHS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = paths.iter().copied().find(|text| *text == path) {
            return Ok(Self { text });
        }
        if paths.len() >= PATHS_MAX {
            return Err(UnixPathError::TooMany);
        }
        let text: &'static str = Box::leak(Box::from(path));
        paths.push(text);
        Ok(Self { text })
    }

    #[inline]
    pub fn as_str(self) -> &'static str {
        self.text
    }
}

impl fmt::Display for UnixPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{UNIX}{}", self.text)
    }
}

impl fmt::Debug for UnixPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unix_socket_is_named_by_an_absolute_path() {
        let long = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX - 1));
        let too_long = format!("{long}a");
        for (text, expected) in [
            ("unix:/run/app.sock", None),
            (long.as_str(), None),
            (too_long.as_str(), Some(UnixPathError::TooLong)),
            ("unix:run/app.sock", Some(UnixPathError::Relative)),
            ("unix:", Some(UnixPathError::Relative)),
            ("/run/app.sock", Some(UnixPathError::Relative)),
            ("unix:/a b", Some(UnixPathError::Character)),
            ("unix:/a\n", Some(UnixPathError::Character)),
            ("unix:/a\0", Some(UnixPathError::Character)),
        ] {
            let parsed = UnixPath::parse(text);
            assert_eq!(parsed.err(), expected, "{text:?}");
            if let Ok(path) = parsed {
                assert_eq!(Endpoint::Unix(path).to_string(), text);
            }
        }
    }

    #[test]
    fn equal_paths_are_one_endpoint_without_a_port() {
        let read = |text| Endpoint::Unix(UnixPath::parse(text).expect("a path"));
        let (one, other) = (read("unix:/run/one.sock"), read("unix:/run/other.sock"));
        assert_eq!(one, read("unix:/run/one.sock"));
        assert_ne!(one, other);
        assert_eq!((one.ip(), one.port(), one.at_port(80)), (None, None, one));
        let ip = Endpoint::from(SocketAddr::from(([127, 0, 0, 1], 80)));
        assert_eq!(ip.at_port(81).to_string(), "127.0.0.1:81");
        assert_eq!(size_of::<Option<Endpoint>>(), size_of::<SocketAddr>());
    }
}
