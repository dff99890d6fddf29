//! JSON form of one object, as APISIX holds objects in memory: with defaults, with nodes as a list,
//! and without secrets.

use std::net::IpAddr;

use serde_json::{Map, Value, json};
use tollhouse_model::encryption::SSL_FIELDS;
use tollhouse_model::{Kind, Upstream, schema};

/// Object as the control API shows it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct StoredObject {
    /// Store key, such as `/apisix/routes/1`.
    pub key: String,
    pub id: String,
    pub value: Value,
    /// Revision of the commit that created the object.
    pub created: u64,
    /// Revision of the commit that last changed the object.
    pub modified: u64,
}

/// Returns the object as the control API shows it.
pub(super) fn to_json(kind: Kind, object: StoredObject) -> Value {
    let StoredObject { key, id, value, created, modified } = object;
    let value = completed(kind, &id, value);
    let has_domain = has_domain(&value);
    json!({
        "key": key,
        "value": value,
        "createdIndex": created,
        "modifiedIndex": modified,
        "orig_modifiedIndex": modified,
        "clean_handlers": {},
        "has_domain": has_domain,
        "update_count": 0,
    })
}

/// Returns the singular name of a kind, for paths and messages.
pub(super) fn singular(kind: Kind) -> &'static str {
    kind.plural().strip_suffix('s').unwrap_or(kind.plural())
}

/// Returns the value with schema defaults, its id, and nodes as a list. Certificates lose their
/// private fields.
pub(super) fn completed(kind: Kind, id: &str, mut value: Value) -> Value {
    if let Some(core) = schema::core(singular(kind)) {
        core.schema().apply_defaults(&mut value);
    }
    let Value::Object(fields) = &mut value else { return value };
    fields.entry("id").or_insert_with(|| id.into());
    if kind == Kind::Ssl {
        for name in SSL_FIELDS {
            fields.shift_remove(name);
        }
    }
    if kind == Kind::Upstream {
        list_nodes(&mut value);
    } else if let Some(upstream) = fields.get_mut("upstream") {
        list_nodes(upstream);
    }
    value
}

/// Converts nodes from a map of addresses and weights into a list.
fn list_nodes(upstream: &mut Value) {
    if !upstream.get("nodes").is_some_and(Value::is_object) {
        return;
    }
    let (parsed, _) = Upstream::parse(None, upstream, "");
    let (Some(parsed), Value::Object(fields)) = (parsed, upstream) else { return };
    let nodes = parsed.nodes.iter().map(|node| {
        let mut shown = Map::new();
        shown.insert("host".into(), node.host.as_str().into());
        shown.insert("port".into(), node.port.into());
        shown.insert("weight".into(), node.weight.into());
        Value::Object(shown)
    });
    fields.insert("nodes".into(), nodes.collect());
}

/// Whether a node has a host name that needs DNS.
fn has_domain(value: &Value) -> bool {
    let upstream = value.get("upstream").unwrap_or(value);
    let nodes = upstream.get("nodes").and_then(Value::as_array);
    nodes.into_iter().flatten().filter_map(|node| node.get("host")?.as_str()).any(|host| {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host.parse::<IpAddr>().is_err()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(value: Value) -> StoredObject {
        let key = "/apisix/routes/1".to_owned();
        StoredObject { key, id: "1".to_owned(), value, created: 3, modified: 5 }
    }

    #[test]
    fn an_object_is_shown_with_defaults_and_a_list_of_nodes() {
        let value = json!({"uri": "/", "upstream": {"type": "roundrobin",
            "nodes": {"127.0.0.1:1980": 1, "[::1]:81": 0}}});
        let shown = to_json(Kind::Route, held(value));
        assert_eq!(shown["key"], "/apisix/routes/1");
        assert_eq!((&shown["createdIndex"], &shown["modifiedIndex"]), (&json!(3), &json!(5)));
        assert_eq!(shown["orig_modifiedIndex"], 5);
        assert_eq!(shown["clean_handlers"], json!({}));
        assert_eq!((&shown["has_domain"], &shown["update_count"]), (&json!(false), &json!(0)));
        let value = &shown["value"];
        assert_eq!((&value["id"], &value["status"]), (&json!("1"), &json!(1)));
        assert_eq!(value["upstream"]["pass_host"], "pass");
        let first = json!({"host": "127.0.0.1", "port": 1980, "weight": 1});
        assert_eq!(value["upstream"]["nodes"][0], first);
        assert_eq!(value["upstream"]["nodes"][1]["port"], 81);
    }

    #[test]
    fn names_among_nodes_are_told() {
        let table = [
            (json!({"nodes": {"127.0.0.1:1": 1}}), false),
            (json!({"nodes": {"[::1]:1": 1}}), false),
            (json!({"nodes": {"a.example:1": 1, "127.0.0.1:1": 1}}), true),
            (json!({"nodes": [{"host": "a.example", "port": 1, "weight": 1}]}), true),
            (json!({"nodes": []}), false),
            (json!({}), false),
        ];
        for (upstream, expected) in table {
            let of_upstream = to_json(Kind::Upstream, held(upstream.clone()));
            assert_eq!(of_upstream["has_domain"], expected, "{upstream}");
            let route = json!({"uri": "/", "upstream": upstream});
            let of_route = to_json(Kind::Route, held(route));
            assert_eq!(of_route["has_domain"], expected, "{upstream}");
        }
    }

    #[test]
    fn private_keys_are_never_shown() {
        let value = json!({"snis": ["a"], "cert": "c", "key": "k", "keys": ["k"]});
        let shown = to_json(Kind::Ssl, held(value));
        assert_eq!((shown["value"].get("key"), shown["value"].get("keys")), (None, None));
        assert_eq!(shown["value"]["cert"], "c");
    }

    #[test]
    fn what_is_no_object_is_shown_as_it_is() {
        assert_eq!(to_json(Kind::Route, held(json!(7)))["value"], 7);
    }
}
