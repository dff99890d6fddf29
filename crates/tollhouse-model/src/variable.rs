//! Variables that expressions, templates and hashing refer to, such as `uri` or `arg_user`.
//!
//! Names are parsed once, on load. Requests implement [`Lookup`] with the functions of
//! `variable/values.rs`, which extract one value from a query string or a `Cookie` header.

use std::borrow::Cow;

use crate::body::is_graphql_name;
use crate::json::{Path, PathError};

mod values;

pub use values::{cookie_value, decode_argument, header_value, query_argument};

/// Variable that conditions, keys and templates can read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Variable {
    /// Normalised path of the request.
    Uri,
    /// Normalised path and arguments. The original is `real_request_uri`.
    RequestUri,
    /// Query string without the question mark.
    Args,
    /// Host without port, in lower case.
    Host,
    /// Scheme used by the client, `http` or `https`.
    Scheme,
    RequestMethod,
    /// Address of the client after real-ip processing.
    RemoteAddr,
    RemotePort,
    /// Address of the gateway at which the client connected.
    ServerAddr,
    /// Port of the gateway at which the client connected.
    ServerPort,
    /// Protocol of the request, such as `HTTP/1.1`.
    ServerProtocol,
    /// `arg_<name>`: first value of a query argument, decoded. The name is case-sensitive.
    Arg(String),
    /// `http_<name>`: request header. The name is stored in lower case with `-` for `_`; in the
    /// request either may be used.
    Header(String),
    /// Cookie with this name (`cookie_<name>`).
    Cookie(String),
    /// `post_arg_<name>`: field of a form body.
    PostArg(String),
    /// `post_arg.<path>`: JSON path into the body.
    PostJson(String),
    /// A JSON path whose value is `true` or `false`; conditions compare booleans with it.
    PostBoolean(String),
    /// `uri_param_<name>`: parameter captured by the pattern of the route.
    UriParam(String),
    /// Any other name (`route_id`, `balancer_ip`, `consumer_name`, …), resolved by name.
    Named(String),
}

impl Variable {
    /// Parses a name. Never fails: an unknown name becomes [`Variable::Named`], which some lookups
    /// may resolve.
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
            // nginx has these two header variables without the prefix `http_`.
            "content_type" => Variable::Header("content-type".into()),
            "content_length" => Variable::Header("content-length".into()),
            _ => prefixed(name).unwrap_or_else(|| Variable::Named(name.into())),
        }
    }

    /// Whether the value is read from the body of the request.
    pub fn reads_body(&self) -> bool {
        match self {
            Variable::PostArg(_) | Variable::PostJson(_) | Variable::PostBoolean(_) => true,
            _ => self.is_graphql(),
        }
    }

    /// Whether the value is read from a GraphQL document.
    pub fn is_graphql(&self) -> bool {
        matches!(self, Variable::Named(name) if is_graphql_name(name))
    }

    /// Returns why the name is invalid. Only a path into a JSON body can be.
    pub fn problem(&self) -> Option<PathError> {
        match self {
            Variable::PostJson(path) => Path::parse(path).err(),
            _ => None,
        }
    }
}

/// Parses a name with a known prefix.
fn prefixed(name: &str) -> Option<Variable> {
    type ParseFn = fn(&str) -> Variable;
    // `post_arg_` and `post_arg.` differ in their last byte, so the order does not matter.
    let kinds: [(&str, ParseFn); 6] = [
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

/// Source of the values of variables: a request, in the data plane and in `explain`.
pub trait Lookup {
    /// Returns the value; `None` if the request has none.
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>>;

    /// Whether the value is a list that contains this element. Few variables are lists; the default
    /// is false.
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
