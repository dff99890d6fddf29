//! Finds the references to other objects in the value of an object of any resource.

use serde_json::Value;

use tollhouse_model::secret::SecretRef;

use crate::object::id_of;

/// Name of the plugin whose configurations refer to upstreams.
const TRAFFIC_SPLIT: &str = "traffic-split";
const GRPC_TRANSCODE: &str = "grpc-transcode";

/// Place of a reference within an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReferenceKind {
    Field,
    /// The reference is in a plugin configuration.
    Plugin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reference {
    /// Path of the referenced object, such as `upstreams/1`.
    pub target: String,
    pub place: ReferenceKind,
}

/// Names of reference fields, each with the collection that it refers to.
const FIELDS: [(&str, &str); 4] = [
    ("upstream_id", "upstreams"),
    ("service_id", "services"),
    ("plugin_config_id", "plugin_configs"),
    ("group_id", "consumer_groups"),
];

/// Collections whose objects can be referred to.
pub(crate) const COLLECTIONS: [&str; 6] =
    ["upstreams", "services", "plugin_configs", "consumer_groups", "stream_routes", "protos"];

/// Returns the references in `value` whose objects must exist; may contain duplicates.
pub(crate) fn find(value: &Value) -> Vec<Reference> {
    let mut references = Vec::new();
    let mut add = |collection: &str, id: Option<String>, place: ReferenceKind| {
        references.extend(id.map(|id| Reference { target: format!("{collection}/{id}"), place }));
    };
    for (field, collection) in FIELDS {
        add(collection, id_of(value, field), ReferenceKind::Field);
    }
    if let Some(protocol) = value.get("protocol") {
        add("stream_routes", id_of(protocol, "superior_id"), ReferenceKind::Field);
    }
    let plugins = value.get("plugins");
    if let Some(conf) = plugins.and_then(|plugins| plugins.get(TRAFFIC_SPLIT)) {
        for upstream in split_upstreams(conf) {
            add("upstreams", id_of(upstream, "upstream_id"), ReferenceKind::Plugin);
        }
    }
    if let Some(conf) = plugins.and_then(|plugins| plugins.get(GRPC_TRANSCODE)) {
        add("protos", id_of(conf, "proto_id"), ReferenceKind::Field);
    }
    references
}

/// Returns all references in `value`, including those whose objects need not exist: client
/// certificates and secret managers. May contain duplicates.
pub(crate) fn find_all(value: &Value) -> Vec<Reference> {
    let mut references = find(value);
    let upstream = value.get("upstream").unwrap_or(&Value::Null);
    for tls in [value.get("tls"), upstream.get("tls")].into_iter().flatten() {
        let id = id_of(tls, "client_cert_id");
        references.extend(
            id.map(|id| Reference { target: format!("ssls/{id}"), place: ReferenceKind::Field }),
        );
    }
    // Iterative, because values may be nested deeper than the stack allows.
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::String(text) => references.extend(keeper(text)),
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    references
}

/// Returns the references to files of the configuration centre in a value.
pub(crate) fn files(value: &Value) -> impl Iterator<Item = &str> {
    // Iterative, because values may be nested deeper than the stack allows.
    let mut waiting = vec![value];
    std::iter::from_fn(move || {
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) => {
                    if matches!(SecretRef::parse(text), Some(SecretRef::File { .. })) {
                        return Some(text.as_str());
                    }
                }
                Value::Array(items) => waiting.extend(items),
                Value::Object(fields) => waiting.extend(fields.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        None
    })
}

/// Returns the reference to a secret manager that a text contains. Texts with a longer id than any
/// object has are ignored.
fn keeper(text: &str) -> Option<Reference> {
    const ID_BYTES_MAX: usize = 64;
    let Some(SecretRef::Keeper { manager, id, .. }) = SecretRef::parse(text) else { return None };
    let target = format!("secrets/{}/{id}", manager.name());
    (id.len() <= ID_BYTES_MAX).then_some(Reference { target, place: ReferenceKind::Field })
}

fn split_upstreams(conf: &Value) -> impl Iterator<Item = &Value> {
    items(conf, "rules").flat_map(|rule| items(rule, "weighted_upstreams"))
}

fn items<'v>(value: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    value.get(name).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_in_fields_and_plugins() {
        let value = json!({
            "upstream_id": 1,
            "service_id": "s",
            "protocol": {"superior_id": "7"},
            "plugins": {
                "traffic-split": {"rules": [
                    {"weighted_upstreams": [{"upstream_id": "u"}, {"weight": 1}]}, {},
                ]},
                "grpc-transcode": {"proto_id": 3},
            },
        });
        let references: Vec<(String, ReferenceKind)> =
            find(&value).into_iter().map(|it| (it.target, it.place)).collect();
        let expected = [
            ("upstreams/1", ReferenceKind::Field),
            ("services/s", ReferenceKind::Field),
            ("stream_routes/7", ReferenceKind::Field),
            ("upstreams/u", ReferenceKind::Plugin),
            ("protos/3", ReferenceKind::Field),
        ];
        assert_eq!(references, expected.map(|(target, place)| (target.to_owned(), place)));
        assert!(find(&json!({"plugins": [], "upstream_id": null})).is_empty());
    }

    #[test]
    fn what_may_come_and_go_is_found_wherever_it_is_named() {
        let value = json!({
            "service_id": "s",
            "upstream": {"tls": {"client_cert_id": 7}},
            "plugins": {"key-auth": {"key": ["$secret://vault/1/jack/key", "$env://KEY"]}},
            "desc": "$secret://aws/",
        });
        let references: Vec<String> = find_all(&value).into_iter().map(|it| it.target).collect();
        assert_eq!(references, ["services/s", "ssls/7", "secrets/vault/1"]);
        assert_eq!(find(&value).len(), 1, "nothing waits for those");
    }
}
