//! Host patterns: `a.com`, `*.a.com`, `*`, each with or without a port.

use crate::spec::MatchRequest;

/// Host pattern of a route, split into shape, text and port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HostPattern<'a> {
    pub(crate) shape: Shape,
    /// The whole host, or the text after the `*`.
    pub(crate) text: &'a [u8],
    pub(crate) port: Port,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Exact,
    /// Matches any host with this ending, at any depth.
    Suffix,
}

/// Part of the request that a pattern is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The host is matched without its port.
    Ignored,
    /// The host with its port, as sent by the client.
    Compared,
}

impl Port {
    /// Determines whether a pattern contains a port. Colons within the brackets of an IPv6 address
    /// do not count.
    pub(crate) fn in_pattern(text: &[u8]) -> Self {
        let colon_or_bracket = memchr::memrchr2(b':', b']', text);
        match colon_or_bracket.map(|at| text[at]) {
            Some(b':') => Port::Compared,
            _ => Port::Ignored,
        }
    }
}

impl<'a> HostPattern<'a> {
    pub(crate) fn parse(pattern: &'a str) -> Self {
        let suffix = pattern.strip_prefix('*');
        let text = suffix.unwrap_or(pattern).as_bytes();
        Self {
            shape: if suffix.is_some() { Shape::Suffix } else { Shape::Exact },
            text,
            port: Port::in_pattern(text),
        }
    }

    pub(crate) fn matches(&self, request: &MatchRequest<'_>) -> bool {
        let host = match self.port {
            Port::Ignored => request.host,
            Port::Compared => request.host_with_port,
        };
        match self.shape {
            Shape::Exact => host == self.text,
            Shape::Suffix => host.ends_with(self.text),
        }
    }
}
