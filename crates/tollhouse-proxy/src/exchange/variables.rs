//! Variables of an exchange for expressions, templates and plugins: the client's request with the
//! edits of plugins, and the progress of the exchange.

use std::borrow::Cow;

use tollhouse_model::body::{Operation, is_graphql_name};
use tollhouse_model::variable::{Lookup, Variable, cookie_value, header_value, query_argument};
use tollhouse_stdx::Endpoint;

use super::held_body::BodyVariable;
use super::{Exchange, tls_variables};
use crate::head::text::{AddressText, write_endpoint};
use crate::snapshot::Reference;

type Value<'a> = Option<Cow<'a, [u8]>>;

impl Lookup for Exchange<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        let (client, state) = (&*self.client, &*self.state);
        match variable {
            Variable::Uri | Variable::RequestUri | Variable::Args | Variable::Arg(_)
                if state.plugins.edits.rewritten.is_some() =>
            {
                self.in_rewritten(variable)
            }
            Variable::Uri => Some(Cow::Borrowed(self.matched_path())),
            Variable::RequestUri => Some(self.matched_uri()),
            Variable::Args => self.raw_query().map(Cow::Borrowed),
            Variable::Host => Some(Cow::Borrowed(&state.host[..state.host_bytes])),
            Variable::Scheme => Some(Cow::Borrowed(client.scheme().as_bytes())),
            Variable::RequestMethod => Some(Cow::Borrowed(self.client_method())),
            // An address set by plugins takes effect at once, although the route was chosen by the
            // previous one.
            Variable::RemoteAddr => match state.plugins.edits.remote {
                Some((address, _)) => address_text(AddressText::new(address)),
                None => Some(Cow::Borrowed(self.client_address_text())),
            },
            Variable::RemotePort => {
                let edited = state.plugins.edits.remote.and_then(|(_, port)| port);
                number(edited.unwrap_or(client.peer.address.port()))
            }
            Variable::ServerAddr => address_text(AddressText::new(client.peer.local.ip())),
            Variable::ServerPort => number(client.peer.local.port()),
            Variable::ServerProtocol => {
                let protocol = self.client.protocol(state.head.version);
                Some(Cow::Borrowed(protocol.as_bytes()))
            }
            Variable::Arg(name) => query_argument(self.raw_query()?, name),
            Variable::Header(name) => header_value(name, self.header_lines()),
            Variable::Cookie(name) => {
                let is_cookie = |name: &[u8]| name.eq_ignore_ascii_case(b"cookie");
                let mut lines = self.header_lines().filter(|(name, _)| is_cookie(name));
                lines.find_map(|(_, value)| cookie_value(value, name)).map(Cow::Borrowed)
            }
            Variable::PostArg(_) | Variable::PostJson(_) | Variable::PostBoolean(_) => {
                self.in_body(variable)
            }
            Variable::UriParam(name) => {
                state.captures.get(name, self.matched_path()).map(Cow::Borrowed)
            }
            Variable::Named(name) if is_graphql_name(name) => self.in_graphql(variable),
            Variable::Named(name) => self.named(name),
        }
    }
}

impl Exchange<'_> {
    /// Returns the client's header lines that plugins have kept, then those added by plugins.
    fn header_lines(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (bytes, edits) = (self.request_bytes(), &self.state.plugins.edits.headers);
        let sent = self.state.head.fields.visible();
        let sent = sent.map(|field| (field.name().bytes_in(bytes), field.value().bytes_in(bytes)));
        sent.filter(|(name, _)| !edits.hides(name)).chain(edits.lines())
    }

    /// Returns the value from the target that a plugin has set, which later plugins judge.
    #[cold]
    fn in_rewritten(&self, variable: &Variable) -> Value<'_> {
        let target = self.state.plugins.edits.rewritten.as_deref()?;
        match variable {
            Variable::Uri => Some(Cow::Borrowed(&target.path)),
            Variable::RequestUri => Some(Cow::Owned(target.request_uri())),
            Variable::Arg(name) => query_argument(target.query.as_deref()?, name),
            _ => target.query.as_deref().map(Cow::Borrowed),
        }
    }

    fn in_body(&self, variable: &Variable) -> Value<'_> {
        let state = &*self.state;
        let limits = self.worker.settings.limits.variables;
        let wanted_variable = BodyVariable { variable, limits };
        state.held_body.value(&state.head, &self.client.link.buffer, wanted_variable)
    }

    /// Returns the value from the GraphQL document in the query argument `query` of a GET, or in
    /// the body of any other method.
    fn in_graphql(&self, variable: &Variable) -> Value<'_> {
        if self.client_method() != b"GET" {
            return self.in_body(variable);
        }
        let document = query_argument(self.raw_query()?, "query")?;
        let operation = Operation::parse(std::str::from_utf8(&document).ok()?)?;
        operation.value(variable).map(Cow::Owned)
    }

    /// Returns the value of a variable by its name. Rarer groups are searched later.
    fn named(&self, name: &str) -> Value<'_> {
        self.named_by_progress(name)
            .or_else(|| self.named_by_route(name))
            .or_else(|| self.named_by_head(name))
            .or_else(|| self.named_by_tls(name))
            .or_else(|| self.named_by_trace(name))
    }

    /// Returns the variables of the exchange's progress, its connection and its consumer.
    fn named_by_progress(&self, name: &str) -> Value<'_> {
        let state = &*self.state;
        let record = &state.record;
        match name {
            "consumer_name" => non_empty(&state.plugins.consumer),
            "consumer_group_id" => non_empty(&state.plugins.consumer_group),
            "status" => number(record.status).filter(|_| record.status > 0),
            "bytes_sent" => number(record.bytes_sent),
            "body_bytes_sent" => number(record.body_bytes_sent),
            "request_length" => number(state.head.head_bytes as u64 + self.body.received),
            "request_time" => {
                let now_ms = self.worker.clock.now_ms();
                Some(Cow::Owned(seconds(now_ms.saturating_sub(record.started_ms))))
            }
            "msec" => Some(Cow::Owned(seconds(self.worker.clock.unix_ms()))),
            "connection_requests" => number(self.client.requests),
            "balancer_ip" => balancer_host(record.attempts.last()?.address),
            "balancer_port" => number(record.attempts.last()?.address.port()?),
            "upstream_addr" => {
                let mut out = Vec::new();
                write_endpoint(&mut out, record.attempts.last()?.address);
                Some(Cow::Owned(out))
            }
            "upstream_status" => {
                let statuses = record.upstream_statuses();
                (!statuses.is_empty()).then_some(Cow::Owned(statuses))
            }
            "upstream_response_time" | "apisix_upstream_response_time" => {
                record.upstream_response_ms.map(|time_ms| Cow::Owned(seconds(time_ms)))
            }
            // Before a node is chosen, the URI that would be sent now.
            "upstream_uri" => match state.plugins.edits.upstream_uri() {
                Some(uri) => Some(Cow::Borrowed(uri)),
                None => Some(self.sent_uri()),
            },
            "upstream_host" => {
                (!state.host_up.is_empty()).then_some(Cow::Borrowed(state.host_up.as_slice()))
            }
            "request_body" => {
                let buffer = &self.client.link.buffer;
                state.held_body.bytes(state.head.head_bytes, buffer).map(Cow::Borrowed)
            }
            "server_name" => Some(Cow::Borrowed(b"_")),
            _ => None,
        }
    }

    /// Ids of the trace, and variables that plugins have set.
    fn named_by_trace(&self, name: &str) -> Value<'_> {
        let filled = |text: &'_ [u8]| !text.is_empty();
        match name {
            "trace_id" => Some(self.state.trace.trace_id_text()).filter(|text| filled(text)),
            "span_id" => Some(self.state.trace.span_id_text()).filter(|text| filled(text)),
            _ => self.state.plugins.variable(name),
        }
        .map(Cow::Borrowed)
    }

    /// Variables of the TLS connection and the client certificate.
    fn named_by_tls(&self, name: &str) -> Value<'_> {
        match name {
            "https" => Some(Cow::Borrowed(if self.client.is_encrypted() { b"on" } else { b"" })),
            _ => tls_variables::named(self.client.tls.as_deref()?, name.strip_prefix("ssl_")?),
        }
    }

    /// Returns the variables of the route; `None` before one is matched.
    fn named_by_route(&self, name: &str) -> Value<'_> {
        let entry = self.route?;
        let route = &entry.route;
        match name {
            "route_id" => text(route.id.as_str()),
            "route_name" => text(route.name.as_deref()?),
            "service_id" => text(route.service_id.as_ref()?.as_str()),
            "service_name" => match &entry.terms().service {
                Reference::Found(service) => text(service.name.as_deref()?),
                Reference::Unnamed | Reference::Missing => None,
            },
            "matched_uri" => text(route.uris.get(self.state.matched.0)?),
            "matched_host" => text(self.matched_host()?),
            _ => None,
        }
    }

    /// Returns the host pattern that matched, of the route or else of its service.
    fn matched_host(&self) -> Option<&str> {
        let entry = self.route?;
        let hosts = match &entry.terms().service {
            Reference::Found(service) if entry.route.hosts.is_empty() => &service.hosts,
            _ => &entry.route.hosts,
        };
        let host = &self.state.host[..self.state.host_bytes];
        let takes = |pattern: &&String| match pattern.strip_prefix('*') {
            Some(end) => host.ends_with(end.as_bytes()),
            None => [host, &self.state.host].contains(&pattern.as_bytes()),
        };
        let found = match self.state.matched.1 {
            Some(index) => hosts.get(index),
            None if hosts.len() > 1 => hosts.iter().find(takes),
            None => hosts.first(),
        };
        found.map(String::as_str)
    }

    fn named_by_head(&self, name: &str) -> Value<'_> {
        match name {
            "query_string" => self.raw_query().map(Cow::Borrowed),
            "is_args" => {
                let has_query = self.raw_query().is_some_and(|query| !query.is_empty());
                Some(Cow::Borrowed(if has_query { b"?" } else { b"" }))
            }
            "real_request_uri" => Some(self.sent_uri()),
            "request" => {
                let bytes = self.request_bytes();
                let end = bytes.iter().position(|&byte| byte == b'\r')?;
                Some(Cow::Borrowed(&bytes[..end]))
            }
            _ => None,
        }
    }
}

fn text(value: &str) -> Value<'_> {
    Some(Cow::Borrowed(value.as_bytes()))
}

fn non_empty(value: &str) -> Value<'_> {
    text(value).filter(|value| !value.is_empty())
}

fn number<'a>(number: impl Into<u64>) -> Value<'a> {
    Some(Cow::Owned(number.into().to_string().into_bytes()))
}

/// Returns the host of a node as configured, if that is an address.
fn balancer_host<'a>(node: Endpoint) -> Value<'a> {
    match node.ip() {
        Some(ip) => address_text(AddressText::new(ip)),
        None => Some(Cow::Owned(node.to_string().into_bytes())),
    }
}

fn address_text<'a>(address: AddressText) -> Value<'a> {
    Some(Cow::Owned(address.as_bytes().to_vec()))
}

/// Formats milliseconds as seconds with three decimals, as nginx writes them.
fn seconds(time_ms: u64) -> Vec<u8> {
    format!("{}.{:03}", time_ms / 1000, time_ms % 1000).into_bytes()
}
