//! Variables that expressions, templates and hashing may name, such as `uri` or `arg_user`.
//!
//! A name is taken apart once, at load; the request side implements [`Lookup`].

use std::borrow::Cow;

/// A variable's name, taken apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Variable {
    /// Normalised path.
    Uri,
    /// Path and arguments as sent.
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
    /// `arg_<name>`: first value of that query argument, percent-decoded.
    Arg(String),
    /// `http_<name>`: request header; stored lower-cased with `-` for `_`.
    Header(String),
    /// `cookie_<name>`.
    Cookie(String),
    /// `post_arg_<name>`: field of a form body.
    PostArg(String),
    /// `post_arg.<path>`: JSON path into the body.
    PostJson(String),
    /// `uri_param_<name>`: captured by the route's pattern.
    UriParam(String),
    /// Any other name (`route_id`, `balancer_ip`, `consumer_name`, …), resolved by name.
    Named(String),
}

/// What can tell a variable's value: a request, in the data plane and in `explain`.
pub trait Lookup {
    /// The value; `None` when absent.
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>>;
}
