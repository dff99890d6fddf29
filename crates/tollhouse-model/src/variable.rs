//! Variables that expressions, templates and hashing may name, such as `uri` or `arg_user`.
//!
//! A name is taken apart once, at load; the request side implements [`Lookup`], with the help of
//! the functions in `variable/values.rs`, which find one value in a query string or a `Cookie`
//! header. Where a request keeps those is not known here.

use std::borrow::Cow;

use crate::body::is_graphql_name;
use crate::json::{Path, PathError};

mod values;

pub use values::{cookie_value, decode_argument, header_value, query_argument};

/// A variable's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Variable {
    /// Normalised path.
    Uri,
    /// Normalised path and arguments; what was sent is `real_request_uri`.
    RequestUri,
    /// Query string without `?`.
    Args,
    /// Host without port, lower-cased.
    Host,
    /// `http` or `https`, as the client spoke.
    Scheme,
    /// Method.
    RequestMethod,
    /// The client's address after real-ip processing.
    RemoteAddr,
    /// The client's port.
    RemotePort,
    /// Our address.
    ServerAddr,
    /// Our port.
    ServerPort,
    /// `HTTP/1.1`.
    ServerProtocol,
    /// `arg_<name>`: first value of that query argument, decoded; the name's case counts.
    Arg(String),
    /// `http_<name>`: request header; stored lower-cased with `-` for `_`, which in the header's own
    /// name may be either.
    Header(String),
    /// `cookie_<name>`.
    Cookie(String),
    /// `post_arg_<name>`: field of a form body.
    PostArg(String),
    /// `post_arg.<path>`: JSON path into the body.
    PostJson(String),
    /// The same where the value is `true` or `false`: what conditions compare booleans with.
    PostBoolean(String),
    /// `uri_param_<name>`: captured by the route's pattern.
    UriParam(String),
    /// Any other name (`route_id`, `balancer_ip`, `consumer_name`, …), resolved by name.
    Named(String),
}

impl Variable {
    /// Takes a name apart. Every name means something: an unknown one is [`Variable::Named`], which
    /// whoever looks it up may know.
    pub fn parse(name: &str) -> Self {
        match name {
            "uri" | "document_uri" => Variable::Uri,
            "request_uri" => Variable::RequestUri,
            "args" | "query_string" => Variable::Args,
            "host" => Variable::Host,
            "scheme" => Variable::Scheme,
            "request_method" | "method" => Variable::RequestMethod,
            "remote_addr" => Variable::RemoteAddr,
            "remote_port" => Variable::RemotePort,
            "server_addr" => Variable::ServerAddr,
            "server_port" => Variable::ServerPort,
            "server_protocol" => Variable::ServerProtocol,
            // The two headers that have a name without `http_`.
            "content_type" => Variable::Header("content-type".into()),
            "content_length" => Variable::Header("content-length".into()),
            _ => prefixed(name).unwrap_or_else(|| Variable::Named(name.into())),
        }
    }

    /// Whether its value comes from the request's body.
    pub fn reads_body(&self) -> bool {
        match self {
            Variable::PostArg(_) | Variable::PostJson(_) | Variable::PostBoolean(_) => true,
            _ => self.is_graphql(),
        }
    }

    /// Whether its value comes from a GraphQL document.
    pub fn is_graphql(&self) -> bool {
        matches!(self, Variable::Named(name) if is_graphql_name(name))
    }

    /// What is wrong with its name, where that is known: a path into a body that is none.
    pub fn problem(&self) -> Option<PathError> {
        match self {
            Variable::PostJson(path) => Path::parse(path).err(),
            _ => None,
        }
    }
}

/// Names made of a known prefix and something of one's own.
fn prefixed(name: &str) -> Option<Variable> {
    type Make = fn(&str) -> Variable;
    // `post_arg_` and `post_arg.` differ in their last byte, so the order does not matter.
    let kinds: [(&str, Make); 6] = [
        ("arg_", |rest| Variable::Arg(rest.into())),
        ("http_", |rest| Variable::Header(rest.to_ascii_lowercase().replace('_', "-"))),
        ("cookie_", |rest| Variable::Cookie(rest.into())),
        ("post_arg_", |rest| Variable::PostArg(rest.into())),
        ("post_arg.", |rest| Variable::PostJson(rest.into())),
        ("uri_param_", |rest| Variable::UriParam(rest.into())),
    ];
    kinds.iter().find_map(|(prefix, make)| {
        name.strip_prefix(prefix).filter(|rest| !rest.is_empty()).map(make)
    })
}

/// What knows a variable's value: a request, in the data plane and in `explain`.
pub trait Lookup {
    /// The value; `None` when absent.
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>>;

    /// Whether the value is a list and has this element; few variables are lists, and a lookup that
    /// knows none of them leaves this as it is.
    fn list_contains(&self, _variable: &Variable, _element: &[u8]) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        let cases = [
            ("uri", Variable::Uri),
            ("query_string", Variable::Args),
            ("method", Variable::RequestMethod),
            ("arg_x_y", Variable::Arg("x_y".into())),
            ("arg_X", Variable::Arg("X".into())),
            ("http_X_Real_IP", Variable::Header("x-real-ip".into())),
            ("http_host", Variable::Header("host".into())),
            ("content_type", Variable::Header("content-type".into())),
            ("cookie_Session", Variable::Cookie("Session".into())),
            ("post_arg_a", Variable::PostArg("a".into())),
            ("post_arg.a.b[0]", Variable::PostJson("a.b[0]".into())),
            ("uri_param_id", Variable::UriParam("id".into())),
            ("graphql_name", Variable::Named("graphql_name".into())),
            ("arg_", Variable::Named("arg_".into())),
            ("", Variable::Named(String::new())),
        ];
        for (name, expected) in cases {
            assert_eq!(Variable::parse(name), expected, "{name}");
        }
    }
}
