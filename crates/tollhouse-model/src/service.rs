//! Services: settings that several routes share.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, PluginSet, Problems, Upstream, plugins};

/// Service that passed validation.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub id: Id,
    /// Plugins of the service's routes. If a route configures one of them too, the route's
    /// configuration replaces the service's.
    pub plugins: PluginSet,
    /// Upstream in the service's object; the id overrides it, except for stream routes.
    pub upstream: Option<Arc<Upstream>>,
    pub upstream_id: Option<Id>,
    /// Hosts of routes that have no hosts.
    pub hosts: Vec<String>,
    /// Whether upgrades to WebSocket pass on routes that do not configure it.
    pub enable_websocket: Option<bool>,
    /// Display name; not used by the gateway.
    pub name: Option<String>,
    /// Description; not used by the gateway.
    pub desc: Option<String>,
    /// Labels for people and tools; not used by the gateway.
    pub labels: BTreeMap<String, String>,
}

const FIELDS: [&str; 10] = [
    "id",
    "plugins",
    "upstream",
    "upstream_id",
    "hosts",
    "enable_websocket",
    "script",
    "name",
    "desc",
    "labels",
];

impl Service {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let service = reader
            .record(value, &FIELDS, Unknown::Refused)
            .map(|fields| read(&mut reader, id, fields));
        (service.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields) -> Service {
    reader.own_keys(fields, Some(&id));
    reader.refuse_lua(fields, "script", "put it into the routes");
    let description = reader.description(fields);
    Service {
        id,
        plugins: reader
            .optional(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))
            .unwrap_or_default(),
        upstream: reader.optional(fields, "upstream", Upstream::read_inline).map(Arc::new),
        upstream_id: reader.optional(fields, "upstream_id", Reader::id),
        hosts: reader.optional(fields, "hosts", Reader::hosts).unwrap_or_default(),
        enable_websocket: reader.optional(fields, "enable_websocket", Reader::boolean),
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_service_may_say_nothing_at_all() {
        let (service, problems) = Service::parse(Id::new("s"), &json!({}), "services[0]");
        assert_eq!(problems.to_string(), "");
        assert_eq!(service.expect("no problem was found").hosts, Vec::<String>::new());
    }

    #[test]
    fn hosts_are_lower_cased_and_checked() {
        let value = json!({"hosts": ["A.com", "*.B.com"], "enable_websocket": true});
        let (service, _) = Service::parse(Id::new("s"), &value, "services[0]");
        let service = service.expect("no problem was found");
        assert_eq!(service.hosts, ["a.com", "*.b.com"]);
        assert_eq!(service.enable_websocket, Some(true));

        let table = [
            (json!([]), "expect array to have at least 1 items"),
            (json!(["a", "a"]), "expected unique items but items 1 and 2 are equal"),
            (
                json!(["a b"]),
                r#"failed to match pattern "^\*$|^\*?[0-9a-zA-Z-._\[\]:]+$" with "a b""#,
            ),
        ];
        for (hosts, expected) in table {
            let value = json!({"hosts": hosts});
            let (service, problems) = Service::parse(Id::new("s"), &value, "services[0]");
            assert!(service.is_none());
            assert!(problems.to_string().contains(expected), "{problems}");
        }
    }
}
