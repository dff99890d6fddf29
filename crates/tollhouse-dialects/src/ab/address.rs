//! URL with ab's rules and in ab's form: the scheme is optional, the path required.

/// URL of ab's command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub is_tls: bool,
    /// Host; an IPv6 address is in brackets.
    pub host: String,
    pub port: u16,
    pub path: String,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// If the path is missing or the port invalid; the text is ab's.
    pub(super) fn parse(url: &str) -> Result<Self, String> {
        let invalid = || format!("invalid URL: {url} (a path is needed, such as {url}/)");
        let (is_tls, rest) = match url.split_once("://") {
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (true, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (false, rest),
            Some((scheme, _)) => return Err(format!("invalid URL: scheme `{scheme}`")),
            None => (false, url),
        };
        let at = rest.find('/').filter(|at| *at > 0).ok_or_else(invalid)?;
        let (authority, path) = rest.split_at(at);
        let after_brackets = authority.rfind(']').map_or(0, |at| at + 1);
        let (host, port) = match authority[after_brackets..].find(':') {
            Some(colon) => {
                let (host, port) = authority.split_at(after_brackets + colon);
                let number = port[1..].parse::<u16>().ok().filter(|port| *port > 0);
                (host, number.ok_or_else(|| format!("invalid URL: port `{}`", &port[1..]))?)
            }
            None => (authority, if is_tls { 443 } else { 80 }),
        };
        if host.is_empty() {
            return Err(invalid());
        }
        Ok(Self { is_tls, host: host.to_owned(), port, path: path.to_owned() })
    }

    pub(super) fn url(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}:{}{}", self.host, self.port, self.path)
    }
}
