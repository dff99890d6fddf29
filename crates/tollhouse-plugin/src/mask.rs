//! Parts of a request that logs show in another form than the client sent them.

use std::borrow::Cow;

use tollhouse_model::body::{self, BodyLimits};
use tollhouse_model::variable::{Variable, cookie_value, header_value, query_argument};

use crate::exchange::{Exchange, each_header};

/// Replacements that a plugin has set in the log phase. Plugins that run later, and the access log,
/// see them in place of the request's own parts.
#[derive(Debug, Default)]
pub struct MaskedRequest {
    /// Path and query.
    pub uri: Option<Vec<u8>>,
    /// Path and query for nodes, if a plugin has set others.
    pub upstream_uri: Option<Vec<u8>>,
    /// Headers with their new value; `None` removes the header.
    pub headers: Vec<(Box<str>, Option<Vec<u8>>)>,
    /// Body; empty if it must not be shown.
    pub body: Option<Vec<u8>>,
}

impl MaskedRequest {
    /// Returns the query of the replaced URI without `?`; `None` if the URI is not replaced or has
    /// none.
    pub fn query(&self) -> Option<&[u8]> {
        let uri = self.uri.as_deref()?;
        uri.iter().position(|byte| *byte == b'?').map(|at| &uri[at + 1..])
    }

    /// Returns the replacement of a header: `None` if it is not replaced, `Some(None)` if it is
    /// removed.
    pub fn header(&self, name: &[u8]) -> Option<Option<&[u8]>> {
        let is_named = |other: &str| other.as_bytes().eq_ignore_ascii_case(name);
        let found = self.headers.iter().rev().find(|(other, _)| is_named(other))?;
        Some(found.1.as_deref())
    }

    /// Calls `visit` with every header line of `exchange`, with the replacements.
    pub fn each_header(&self, exchange: &dyn Exchange, visit: &mut dyn FnMut(&[u8], &[u8])) {
        each_header(exchange, &mut |name, value| {
            if self.header(name).is_none() {
                visit(name, value);
            }
        });
        for (index, (name, value)) in self.headers.iter().enumerate() {
            let is_replaced =
                self.headers[index + 1..].iter().any(|(later, _)| later.eq_ignore_ascii_case(name));
            if let (Some(value), false) = (value, is_replaced) {
                visit(name.as_bytes(), value);
            }
        }
    }

    /// Returns the value of a variable of `exchange`, with the replacements.
    pub fn variable<'a>(
        &'a self,
        exchange: &'a dyn Exchange,
        variable: &Variable,
    ) -> Option<Cow<'a, [u8]>> {
        let own = || exchange.as_lookup().variable(variable);
        match variable {
            Variable::Header(_) | Variable::Cookie(_) if !self.headers.is_empty() => {
                self.in_headers(exchange, variable)
            }
            Variable::PostArg(_) | Variable::PostJson(_) | Variable::PostBoolean(_) => {
                match &self.body {
                    Some(body) => self.in_body(exchange, body, variable),
                    None => own(),
                }
            }
            Variable::Host => match self.header(b"host") {
                Some(host) => host.map(Cow::Borrowed),
                None => own(),
            },
            Variable::RequestUri => self.uri.as_deref().map(Cow::Borrowed).or_else(own),
            Variable::Args if self.uri.is_some() => self.query().map(Cow::Borrowed),
            Variable::Arg(name) if self.uri.is_some() => query_argument(self.query()?, name),
            Variable::Named(name) => self.named(exchange, variable, name),
            _ => own(),
        }
    }

    fn named<'a>(
        &'a self,
        exchange: &'a dyn Exchange,
        variable: &Variable,
        name: &str,
    ) -> Option<Cow<'a, [u8]>> {
        match (name, &self.uri, &self.body) {
            ("request_body", _, Some(body)) => Some(Cow::Borrowed(body)),
            (_, _, Some(body)) if variable.is_graphql() => self.in_body(exchange, body, variable),
            ("request", Some(uri), _) => Some(Cow::Owned(request_line(exchange, uri))),
            ("real_request_uri", Some(uri), _) => Some(Cow::Borrowed(uri)),
            ("upstream_uri", ..) if let Some(uri) = self.upstream_uri(exchange) => {
                Some(Cow::Borrowed(uri))
            }
            ("query_string", Some(_), _) => self.query().map(Cow::Borrowed),
            _ => exchange.as_lookup().variable(variable),
        }
    }

    /// Returns path and query for nodes; `None` if they need no replacement.
    pub fn upstream_uri(&self, exchange: &dyn Exchange) -> Option<&[u8]> {
        let is_edited = exchange.edits().upstream_uri().is_some();
        if is_edited { self.upstream_uri.as_deref() } else { self.uri.as_deref() }
    }

    fn in_headers<'a>(
        &'a self,
        exchange: &'a dyn Exchange,
        variable: &Variable,
    ) -> Option<Cow<'a, [u8]>> {
        let mut lines: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
        self.each_header(exchange, &mut |name, value| lines.push((name.into(), value.into())));
        let lines = lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
        let value = match variable {
            Variable::Header(name) => header_value(name, lines).map(Cow::into_owned),
            Variable::Cookie(name) => {
                let mut cookies = lines.filter(|(name, _)| name.eq_ignore_ascii_case(b"cookie"));
                cookies.find_map(|(_, value)| cookie_value(value, name)).map(<[u8]>::to_vec)
            }
            _ => None,
        };
        value.map(Cow::Owned)
    }

    fn in_body<'a>(
        &self,
        exchange: &dyn Exchange,
        text: &[u8],
        variable: &Variable,
    ) -> Option<Cow<'a, [u8]>> {
        let content_type = exchange.client_header(b"content-type").unwrap_or_default();
        let values = body::look_up(
            text,
            content_type,
            std::slice::from_ref(variable),
            BodyLimits::default(),
        );
        values.into_iter().next().flatten().map(Cow::Owned)
    }
}

/// Returns the first line of a request with another path and query.
fn request_line(exchange: &dyn Exchange, uri: &[u8]) -> Vec<u8> {
    let version = exchange.as_lookup().variable(&Variable::ServerProtocol).unwrap_or_default();
    [exchange.method(), uri, &version].join(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::FakeExchange;

    #[test]
    fn variables_have_the_replaced_values() {
        let text = "POST /a?b=1 HTTP/1.1\nX-A: 1\nX-B: 2\nCookie: c=d\nContent-Type: application/x-www-form-urlencoded\n\nf=g";
        let exchange = FakeExchange::parse(text, 0)
            .with_variable("request", "POST /a?b=1 HTTP/1.1")
            .with_variable("graphql_name", "Secret");
        let mut mask = MaskedRequest::default();
        let value = |mask: &MaskedRequest, name: &str| {
            let value = mask.variable(&exchange, &Variable::parse(name));
            value.map(|value| String::from_utf8_lossy(&value).into_owned())
        };
        assert_eq!(value(&mask, "request_uri").as_deref(), Some("/a?b=1"));
        assert_eq!(value(&mask, "http_x_a").as_deref(), Some("1"));
        mask.uri = Some(b"/a?b=*".to_vec());
        mask.headers.push(("X-A".into(), Some(b"3".to_vec())));
        mask.headers.push(("x-b".into(), None));
        mask.headers.push(("cookie".into(), Some(b"c=*".to_vec())));
        mask.body = Some(b"f=*".to_vec());
        for (name, expected) in [
            ("request_uri", Some("/a?b=*")),
            ("uri", Some("/a")),
            ("args", Some("b=*")),
            ("arg_b", Some("*")),
            ("http_x_a", Some("3")),
            ("http_x_b", None),
            ("cookie_c", Some("*")),
            ("post_arg_f", Some("*")),
            ("request_body", Some("f=*")),
            ("request_method", Some("POST")),
            ("request", Some("POST /a?b=* HTTP/1.1")),
            ("upstream_uri", Some("/a?b=*")),
            ("graphql_name", None),
        ] {
            assert_eq!(value(&mask, name).as_deref(), expected, "{name}");
        }
        mask.body = Some(b"query Masked {a}".to_vec());
        assert_eq!(value(&mask, "graphql_name").as_deref(), Some("Masked"));
        mask.headers.push(("host".into(), Some(b"*".to_vec())));
        assert_eq!(value(&mask, "host").as_deref(), Some("*"));
    }
}
