//! Variables of a connection, under the names of nginx's stream module.

use std::borrow::Cow;

use tollhouse_model::variable::{Lookup, Variable};

use super::connection::Connection;
use crate::exchange::tls_variables;
use crate::head::text::write_endpoint;
use crate::snapshot::Reference;

impl Lookup for Connection<'_> {
    fn variable(&self, variable: &Variable) -> Option<Cow<'_, [u8]>> {
        match variable {
            Variable::RemoteAddr => text(self.client_address().to_string()),
            Variable::RemotePort => text(self.ends.client.port().to_string()),
            Variable::ServerAddr => text(self.ends.listener.ip().to_canonical().to_string()),
            Variable::ServerPort => text(self.ends.listener.port().to_string()),
            Variable::Named(name) => self.named(name),
            _ => None,
        }
    }
}

impl Connection<'_> {
    fn named(&self, name: &str) -> Option<Cow<'_, [u8]>> {
        // The last edit of a plugin wins, also over the connection's own value, as with `ngx.var`.
        if let Some((_, value)) = self.edits.variables.iter().rev().find(|(own, _)| *own == name) {
            return Some(Cow::Borrowed(value));
        }
        let route = self.entry.as_ref().map(|entry| &entry.route);
        match name {
            "protocol" => text(self.transport.name()),
            "server_name" | "ssl_preread_server_name" | "ssl_server_name" => {
                text(self.server_name.clone()?)
            }
            _ if name.starts_with("ssl_") => {
                tls_variables::named(self.tls.as_ref()?, name.strip_prefix("ssl_")?)
            }
            "status" => text(self.record.status.to_string()),
            "bytes_received" => text(self.record.bytes_received.to_string()),
            "bytes_sent" => text(self.record.bytes_sent.to_string()),
            "session_time" => text(seconds(self.session_ms())),
            "route_id" => text(route?.id.as_str()),
            "route_name" => text(route?.name.clone()?),
            "service_id" => text(route?.service_id.as_ref()?.as_str()),
            "service_name" => match &self.entry.as_ref()?.service {
                Reference::Found(service) => text(service.name.clone()?),
                Reference::Unnamed | Reference::Missing => None,
            },
            "upstream_addr" => {
                let mut out = Vec::new();
                write_endpoint(&mut out, self.record.attempts.last()?.0);
                Some(Cow::Owned(out))
            }
            _ => None,
        }
    }

    /// Returns the duration of the session in milliseconds.
    pub(super) fn session_ms(&self) -> u64 {
        self.worker.clock.now_ms().saturating_sub(self.record.started_ms)
    }
}

fn text<'a>(value: impl Into<String>) -> Option<Cow<'a, [u8]>> {
    Some(Cow::Owned(value.into().into_bytes()))
}

fn seconds(time_ms: u64) -> String {
    format!("{}.{:03}", time_ms / 1000, time_ms % 1000)
}
