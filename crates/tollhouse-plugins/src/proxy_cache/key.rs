//! Properties that distinguish requests: keys made of texts and variables, and the values of the
//! headers by which an answer varies.

use std::borrow::Cow;

use tollhouse_model::variable::{Lookup, Variable};
use tollhouse_plugin::{RequestContext, ResponseContext};

/// Parts of the cache key: texts and variables, concatenated.
#[derive(Debug)]
pub(super) struct Parts(Vec<Part>);

/// Request header with the host and its port.
const HOST: &str = "host";
/// Request header with credentials.
const AUTHORIZATION: &str = "authorization";
/// Request header with the sessions of browsers.
const COOKIE: &str = "cookie";

#[derive(Debug)]
enum Part {
    Text(String),
    Variable(Variable),
}

impl Parts {
    pub fn parse(parts: &[String]) -> Self {
        let part = |text: &String| match text.strip_prefix('$') {
            Some(name) => Part::Variable(Variable::parse(name)),
            None => Part::Text(text.clone()),
        };
        Self(parts.iter().map(part).collect())
    }

    /// Appends the values, each with its length, so that no two lists look alike; an absent
    /// variable is empty.
    pub fn write(&self, request: &dyn Lookup, out: &mut Vec<u8>) {
        self.0.iter().for_each(|part| write_part(&part.value(request), out));
    }

    /// Whether requests with other credentials have other keys.
    pub fn names_authorization(&self) -> bool {
        let wanted = Variable::Header(AUTHORIZATION.into());
        self.0.iter().any(|part| matches!(part, Part::Variable(name) if *name == wanted))
    }

    /// Whether requests with different cookies, or different values of one cookie, have different
    /// keys.
    pub fn names_cookie(&self) -> bool {
        let all = Variable::Header(COOKIE.into());
        let names = |name: &Variable| *name == all || matches!(name, Variable::Cookie(_));
        self.0.iter().any(|part| matches!(part, Part::Variable(name) if names(name)))
    }

    /// Whether the values together are neither empty nor `0`.
    pub fn is_set(&self, request: &dyn Lookup) -> bool {
        let value: Vec<u8> =
            self.0.iter().flat_map(|part| part.value(request).into_owned()).collect();
        !value.is_empty() && value != b"0"
    }
}

impl Part {
    fn value<'r>(&'r self, request: &'r dyn Lookup) -> Cow<'r, [u8]> {
        match self {
            Part::Text(text) => Cow::Borrowed(text.as_bytes()),
            Part::Variable(name) => {
                let mut value = request.variable(name).unwrap_or_default();
                if *name == Variable::Host {
                    write_port(request, value.to_mut());
                }
                value
            }
        }
    }
}

/// Appends a part of a key with its length.
pub(super) fn write_part(value: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    out.extend_from_slice(value);
}

/// Appends the port in the client's `Host`, because nodes receive it, and answers may contain it.
fn write_port(request: &dyn Lookup, out: &mut Vec<u8>) {
    let Some(sent) = request.variable(&Variable::Header(HOST.into())) else { return };
    let port = sent.iter().rposition(|&byte| byte == b':').map(|colon| &sent[colon..]);
    // The last colon of an address in brackets need not begin a port.
    if let Some(port) = port.filter(|port| port[1..].iter().all(u8::is_ascii_digit)) {
        out.extend_from_slice(port);
    }
}

/// Returns a request's values of the headers by which answers vary.
pub(super) fn signature(cx: &RequestContext<'_>, names: &[String]) -> Vec<u8> {
    joined(names.iter().map(|name| cx.header(name)))
}

/// Returns the values of the request headers `names` after the answer has arrived.
pub(super) fn signature_of_response(cx: &ResponseContext<'_>, names: &[String]) -> Vec<u8> {
    joined(names.iter().map(|name| cx.request_header(name)))
}

/// Joins values, each with its length, so that different lists never give equal texts.
fn joined<T: AsRef<[u8]>>(values: impl Iterator<Item = Option<T>>) -> Vec<u8> {
    let mut out = Vec::new();
    for value in values {
        write_part(value.as_ref().map_or(&[][..], AsRef::as_ref), &mut out);
    }
    out
}
