//! The hypothetical request, as the data plane would see it.
//!
//! The request is serialised and parsed by the codec, so that requests that the codec rejects are
//! rejected here too. The variables are those of `tollhouse-proxy/src/exchange/variables.rs`; a
//! test compares the two.

mod exchange;

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use tollhouse_http::{BodyLength, HeadError, Known, RequestHead, authority};
use tollhouse_model::body::{self, BodyLimits, Operation, is_graphql_name};
use tollhouse_model::variable::{Lookup, Variable, cookie_value, header_value, query_argument};
use tollhouse_plugin::RequestEdits;
use tollhouse_proxy::Settings;
use tollhouse_router::{
    AmbiguousPaths, MatchRequest, Normalized, is_ambiguous, normalize_path, request_uri,
};
use tollhouse_telemetry::ErrorCode;

/// Accepted URL schemes with their default ports.
const SCHEMES: [(&str, Option<u16>); 5] =
    [("http", Some(80)), ("https", Some(443)), ("tcp", None), ("tls", None), ("udp", None)];

/// A raw TCP, TLS or UDP connection, for stream routes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BelowHttp<'a> {
    /// Transport: `tcp`, `tls` or `udp`.
    pub scheme: &'static str,
    /// Host name or IP address, without brackets.
    pub host: &'a str,
    pub port: u16,
}

/// Parsed URL: `http://` or `https://host[:port]/path?query`, or `tcp://`, `tls://` or
/// `udp://host:port`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    /// `host[:port]` as in the `Host` header, without a default port.
    authority: String,
    /// Destination port; the scheme's default if the URL has none.
    port: u16,
    scheme: &'static str,
    /// Path and query of the URL.
    target: String,
}

/// The URL in a form that reads back to the same.
impl fmt::Display for Url {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { authority, scheme, target, .. } = self;
        match self.below_http() {
            Some(_) => write!(out, "{scheme}://{authority}"),
            None => write!(out, "{scheme}://{authority}{target}"),
        }
    }
}

impl FromStr for Url {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.split_once("://").unwrap_or_default();
        let entry = SCHEMES.into_iter().find(|(scheme, _)| *scheme == name);
        let Some((scheme, own_port)) = entry else {
            let forms = "http://host/path, https://host/path, tcp://host:port, tls://host:port \
                         or udp://host:port";
            return Err(format!("write it as {forms}"));
        };
        if text.contains(|letter: char| letter.is_whitespace() || letter.is_control()) {
            return Err("encode spaces and control characters as %20 and the like".to_owned());
        }
        // Clients do not send the fragment.
        let rest = rest.split('#').next().unwrap_or(rest);
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (_, port) = authority::split(host.as_bytes()).ok_or("its host cannot be read")?;
        let port = port.map(|span| span.bytes_in(host.as_bytes())).unwrap_or_default();
        let port = std::str::from_utf8(port).ok().and_then(|port| port.parse().ok());
        let target = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        // Clients omit the scheme's default port from `Host`.
        let host = own_port.and_then(|own| host.strip_suffix(&format!(":{own}"))).unwrap_or(host);
        let port = port.or(own_port).ok_or("give the port, as in tcp://host:9100")?;
        Ok(Self { authority: host.to_owned(), port, scheme, target })
    }
}

impl Url {
    /// Returns the raw connection of a `tcp`, `tls` or `udp` URL; `None` for HTTP.
    pub fn below_http(&self) -> Option<BelowHttp<'_>> {
        if matches!(self.scheme, "http" | "https") {
            return None;
        }
        let host =
            self.authority.rsplit_once(':').map_or(self.authority.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        Some(BelowHttp { scheme: self.scheme, host, port: self.port })
    }
}

/// Header line of the question, written as `Name: value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderLine {
    name: String,
    value: String,
}

impl HeaderLine {
    fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }
}

impl fmt::Display for HeaderLine {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.name, self.value)
    }
}

impl FromStr for HeaderLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once(':').ok_or("write it as 'Name: value'")?;
        if text.contains(['\r', '\n', '\0']) {
            return Err("a header is one line".to_owned());
        }
        Ok(Self { name: name.trim().to_owned(), value: value.trim().to_owned() })
    }
}

/// The request to explain, as the caller wrote it.
#[derive(Debug, Clone)]
pub struct ExplainRequest {
    pub url: Url,
    /// Method; the default is GET, or POST if there is a body.
    pub method: Option<String>,
    pub headers: Vec<HeaderLine>,
    /// Client address, after the headers of trusted proxies have been evaluated.
    pub remote_addr: IpAddr,
    pub body: Option<String>,
}

/// Why a request is refused before routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The codec rejects the head.
    Head(HeadError),
    Code(ErrorCode),
}

/// A parsed request, ready for routing.
#[derive(Debug)]
pub struct Question {
    bytes: Vec<u8>,
    head: RequestHead,
    /// Normalised path.
    pub path: Vec<u8>,
    /// Whether the path is refused if a plugin decides by it.
    pub is_ambiguous: bool,
    /// Host in lower case, with the port.
    host: Vec<u8>,
    remote_addr: IpAddr,
    server_port: u16,
    scheme: &'static str,
    body: Vec<u8>,
    /// Limits on bodies in which variables are looked up.
    variables: BodyLimits,
    /// Edits that plugins would make; always empty here.
    edits: RequestEdits,
}

impl Question {
    /// Builds the request and runs all checks that the data plane makes before routing.
    ///
    /// # Errors
    /// If the data plane would refuse the request before routing.
    pub fn ask(asked: &ExplainRequest, settings: &Settings) -> Result<Self, Rejection> {
        let bytes = head_text(asked).into_bytes();
        let mut head = RequestHead::default();
        let is_whole = head.parse(&bytes, &settings.limits.head).map_err(Rejection::Head)?;
        if !is_whole {
            return Err(Rejection::Head(HeadError::BadLine));
        }
        if matches!(head.body, BodyLength::Known(length) if length > settings.limits.body_bytes) {
            return Err(Rejection::Code(ErrorCode::BodyTooLarge));
        }
        let sent = head.parts.path.bytes_in(&bytes);
        let mut path = Vec::new();
        let normalized = normalize_path(sent, &settings.normalize, &mut path)
            .map_err(|_| Rejection::Code(ErrorCode::BadPath))?;
        if normalized == Normalized::Borrowed {
            path = sent.to_vec();
        }
        let mut host = Vec::new();
        head.write_host(&bytes, &mut host);
        let variables = settings.limits.variables;
        // Plugins see an empty body above this limit, so that the explanation has to use one too.
        let mut body = asked.body.clone().unwrap_or_default().into_bytes();
        if body.len() > variables.fields.max(variables.graphql) {
            body.clear();
        }
        let is_ambiguous = settings.ambiguous_paths == AmbiguousPaths::Refuse
            && is_ambiguous(sent, &settings.normalize);
        Ok(Self {
            path,
            is_ambiguous,
            host,
            remote_addr: asked.remote_addr.to_canonical(),
            server_port: asked.url.port,
            scheme: asked.url.scheme,
            body,
            variables,
            bytes,
            head,
            edits: RequestEdits::default(),
        })
    }

    /// Returns the routing input with another path, which must be normalised.
    pub fn at<'a>(&'a self, path: &'a [u8]) -> MatchRequest<'a> {
        MatchRequest {
            path,
            host: self.host(),
            host_with_port: &self.host,
            method: self.method(),
            remote_addr: self.remote_addr,
            variables: self,
        }
    }

    pub fn method(&self) -> &[u8] {
        self.head.method.bytes_in(&self.bytes)
    }

    /// Returns the authority `host[:port]` as sent.
    pub fn authority(&self) -> &[u8] {
        self.head.authority.bytes_in(&self.bytes)
    }

    /// Returns the path as sent, before normalisation.
    pub fn sent_path(&self) -> &[u8] {
        self.head.parts.path.bytes_in(&self.bytes)
    }

    pub fn remote_addr(&self) -> IpAddr {
        self.remote_addr
    }

    fn host(&self) -> &[u8] {
        &self.host[..self.head.host_bytes as usize]
    }

    fn query(&self) -> Option<&[u8]> {
        self.head.parts.query.map(|query| query.bytes_in(&self.bytes))
    }

    fn header_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let bytes = &self.bytes;
        let lines = self.head.fields.visible();
        lines.map(|field| (field.name().bytes_in(bytes), field.value().bytes_in(bytes)))
    }

    fn named(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        match name {
            "is_args" => {
                let has_query = self.query().is_some_and(|query| !query.is_empty());
                Some(Cow::Borrowed(if has_query { b"?" } else { b"" }))
            }
            "real_request_uri" => Some(self.head.origin_form(&self.bytes)),
            "request" => {
                let end = self.bytes.iter().position(|&byte| byte == b'\r')?;
                Some(Cow::Borrowed(&self.bytes[..end]))
            }
            _ => None,
        }
    }
}

/// Returns the request head as bytes on the wire, including the headers that a client adds by
/// itself.
pub fn head_text(asked: &ExplainRequest) -> String {
    let default_method = if asked.body.is_some() { "POST" } else { "GET" };
    let method = asked.method.as_deref().unwrap_or(default_method);
    let mut text = format!("{method} {} HTTP/1.1\r\n", asked.url.target);
    let has = |name: &str| asked.headers.iter().any(|header| header.is(name));
    if !has("host") {
        text.push_str(&format!("Host: {}\r\n", asked.url.authority));
    }
    for HeaderLine { name, value } in &asked.headers {
        text.push_str(&format!("{name}: {value}\r\n"));
    }
    if let Some(body) = &asked.body {
        if !has("content-type") {
            text.push_str("Content-Type: application/x-www-form-urlencoded\r\n");
        }
        if !has("content-length") && !has("transfer-encoding") {
            text.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
    }
    text.push_str("\r\n");
    text
}

impl Lookup for Question {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let text = |text: String| Some(Cow::Owned(text.into_bytes()));
        match variable {
            Variable::Uri => Some(Cow::Borrowed(&self.path)),
            Variable::RequestUri => Some(Cow::Owned(request_uri(&self.path, self.query()))),
            Variable::Args => self.query().map(Cow::Borrowed),
            Variable::Host => Some(Cow::Borrowed(self.host())),
            Variable::Scheme => Some(Cow::Borrowed(self.scheme.as_bytes())),
            Variable::RequestMethod => Some(Cow::Borrowed(self.method())),
            Variable::RemoteAddr => text(self.remote_addr.to_string()),
            Variable::ServerPort => text(self.server_port.to_string()),
            Variable::ServerProtocol => Some(Cow::Borrowed(b"HTTP/1.1")),
            // Only a real connection has a remote port and a server address, and only a chosen
            // route has captured parameters.
            Variable::RemotePort | Variable::ServerAddr | Variable::UriParam(_) => None,
            Variable::Arg(name) => query_argument(self.query()?, name),
            Variable::Header(name) => header_value(name, self.header_lines()),
            Variable::Cookie(name) => {
                let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"cookie");
                let mut lines = self.header_lines().filter(|(name, _)| is_cookie(name));
                lines.find_map(|(_, value)| cookie_value(value, name)).map(Cow::Borrowed)
            }
            Variable::PostArg(_) | Variable::PostJson(_) | Variable::PostBoolean(_) => {
                self.in_body(variable)
            }
            Variable::Named(name) if is_graphql_name(name) => self.graphql(variable),
            Variable::Named(name) => self.named(name),
        }
    }
}

impl Question {
    /// Returns the value of a variable in the request body; `None` if the body does not contain it.
    fn in_body(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let content_type = self.head.fields.first(Known::ContentType);
        let content_type = content_type.map_or(&[][..], |span| span.bytes_in(&self.bytes));
        let value =
            body::look_up(&self.body, content_type, std::slice::from_ref(variable), self.variables);
        value.into_iter().next().flatten().map(Cow::Owned)
    }

    /// Returns the value of a GraphQL variable. The document is the argument `query` of a GET
    /// request, else the body.
    fn graphql(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        if self.method() != b"GET" {
            return self.in_body(variable);
        }
        let document = query_argument(self.query()?, "query")?;
        let operation = Operation::parse(std::str::from_utf8(&document).ok()?)?;
        operation.value(variable).map(Cow::Owned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_apart_or_refused() {
        let table = [
            ("http://a.com/x?y=1#z", Ok(("a.com", 80, "/x?y=1"))),
            ("http://a.com:80", Ok(("a.com", 80, "/"))),
            ("http://a.com:9080?q", Ok(("a.com:9080", 9080, "/?q"))),
            ("http://[::1]:9080/", Ok(("[::1]:9080", 9080, "/"))),
            ("https://a.com/", Ok(("a.com", 443, "/"))),
            ("https://a.com:443/x", Ok(("a.com", 443, "/x"))),
            ("https://a.com:80", Ok(("a.com:80", 80, "/"))),
            ("tcp://a.com/", Err("give the port")),
            ("tls://a.com:9443", Ok(("a.com:9443", 9443, "/"))),
            ("ftp://a.com/", Err("tcp://host:port")),
            ("a.com/x", Err("http://host/path")),
            ("http:///x", Err("host cannot be read")),
            ("http://u@a.com/", Err("host cannot be read")),
            ("http://a.com/a b", Err("%20")),
        ];
        for (text, expected) in table {
            match (Url::from_str(text), expected) {
                (Ok(url), Ok((authority, port, target))) => {
                    assert_eq!(Url::from_str(&url.to_string()).as_ref(), Ok(&url));
                    assert_eq!(
                        (&*url.authority, url.port, &*url.target),
                        (authority, port, target)
                    );
                }
                (Err(error), Err(part)) => assert!(error.contains(part), "{text}: {error}"),
                (found, expected) => panic!("{text}: {found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn a_header_is_one_line() {
        let line = HeaderLine::from_str("X-A:  b:c ").expect("a good line");
        assert_eq!((line.name.as_str(), line.value.as_str()), ("X-A", "b:c"));
        assert!(HeaderLine::from_str("X-A").is_err());
        assert!(HeaderLine::from_str("X-A: b\r\nHost: c").is_err());
    }
}
