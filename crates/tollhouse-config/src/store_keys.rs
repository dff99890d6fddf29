//! Keys of objects in the store. The layout is that of APISIX, so that one store can serve both.
//!
//! Only converts between keys and object ids. Values are validated in `tollhouse-model`. Keys
//! without an object (counters, folder markers, reports of nodes) have no conversion.

use tollhouse_model::{Credential, Id, Kind, Secret};

/// Prefix of all keys in the store, by default; the same as APISIX's.
pub const DEFAULT_PREFIX: &str = "/apisix";

/// Returns the key of an object. `id` is the id in a [`Document`](crate::Document):
/// `<username>/credentials/<id>` for a credential, `<manager>/<id>` for a secret, the plugin's name
/// for metadata.
pub fn store_key(prefix: &str, kind: Kind, id: &Id) -> String {
    format!("{}{id}", kind_prefix(prefix, kind))
}

/// Returns the prefix of the keys of a kind, with the final slash. Credentials share that of
/// consumers.
pub fn kind_prefix(prefix: &str, kind: Kind) -> String {
    let list = if kind == Kind::Credential { Kind::Consumer } else { kind };
    format!("{prefix}/{}/", list.plural())
}

/// Returns kind and id of a key; `None` for keys without an object.
pub fn parse_store_key(prefix: &str, key: &str) -> Option<(Kind, Id)> {
    let (list, name) = key.strip_prefix(prefix)?.strip_prefix('/')?.split_once('/')?;
    let list = Kind::from_list_name(list)?;
    let kind = match list {
        Kind::Consumer if Credential::split_key(name).is_some() => Kind::Credential,
        _ => list,
    };
    let is_whole = match kind {
        Kind::Credential => Credential::split_key(name)
            .is_some_and(|(owner, id)| is_segment(owner) && is_segment(id)),
        Kind::Secret => Secret::split_key(name).is_some_and(|(_, id)| is_segment(id)),
        _ => is_segment(name),
    };
    is_whole.then(|| (kind, Id::new(name)))
}

/// Whether a part of a key is a single name. An empty part marks a folder; a slash belongs to
/// something below the object.
fn is_segment(part: &str) -> bool {
    !part.is_empty() && !part.contains('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_to_objects_and_back() {
        let table = [
            (Kind::Route, "1", "/apisix/routes/1"),
            (Kind::Service, "s", "/apisix/services/s"),
            (Kind::Upstream, "u", "/apisix/upstreams/u"),
            (Kind::PluginConfig, "p", "/apisix/plugin_configs/p"),
            (Kind::GlobalRule, "g", "/apisix/global_rules/g"),
            (Kind::Consumer, "jack", "/apisix/consumers/jack"),
            (Kind::Credential, "jack/credentials/c1", "/apisix/consumers/jack/credentials/c1"),
            (Kind::ConsumerGroup, "c", "/apisix/consumer_groups/c"),
            (Kind::PluginMetadata, "http-logger", "/apisix/plugin_metadata/http-logger"),
            (Kind::Proto, "p", "/apisix/protos/p"),
            (Kind::Ssl, "1", "/apisix/ssls/1"),
            (Kind::StreamRoute, "1", "/apisix/stream_routes/1"),
            (Kind::Secret, "vault/1", "/apisix/secrets/vault/1"),
        ];
        assert_eq!(table.map(|(kind, _, _)| kind), Kind::ALL);
        for (kind, id, key) in table {
            assert_eq!(store_key(DEFAULT_PREFIX, kind, &Id::new(id)), key);
            assert!(key.starts_with(&kind_prefix(DEFAULT_PREFIX, kind)), "{key}");
            let found = parse_store_key(DEFAULT_PREFIX, key);
            assert_eq!(found, Some((kind, Id::new(id))), "{key}");
        }
        assert_eq!(store_key("", Kind::Route, &Id::new("1")), "/routes/1");
        assert_eq!(parse_store_key("", "/routes/1"), Some((Kind::Route, Id::new("1"))));
    }

    #[test]
    fn other_keys_name_nothing() {
        let keys = [
            "",
            "/apisix",
            "/apisix/gen_id",
            "/apisix/plugins",
            "/apisix/routes",
            "/apisix/routes/",
            "/apisix/routes/1/2",
            "/apisix/route/1",
            "/apisix/credentials/1",
            "/apisix/services/1/graphql_cost_decorations/2",
            "/apisix/consumers/jack/credentials/",
            "/apisix/consumers//credentials/c",
            "/apisix/consumers/jack/credentials/a/b",
            "/apisix/consumers/jack/other/c",
            "/apisix/secrets/vault",
            "/apisix/secrets/vault/",
            "/apisix/secrets/nobody/1",
            "/apisix/data_plane/server_info/7",
            "/apisixroutes/1",
            "/other/routes/1",
        ];
        for key in keys {
            assert_eq!(parse_store_key(DEFAULT_PREFIX, key), None, "{key}");
        }
    }
}
