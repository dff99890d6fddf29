//! Documents of the route and the service that a request has matched, for plugins that pass them on.
//!
//! They have the fields of the Admin API, without upstreams, scripts and the configurations of
//! plugins, which contain secrets.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use tollhouse_model::{Route, Service};
use tollhouse_plugin::exchange::MatchedObject;

use crate::exchange::Exchange;
use crate::snapshot::Reference;

/// Returns the document of an object; `None` if the request has matched none.
pub(super) fn document(exchange: &Exchange<'_>, kind: MatchedObject) -> Option<Value> {
    let entry = exchange.route?;
    match kind {
        MatchedObject::Route => Some(route(&entry.route)),
        MatchedObject::Service => match &entry.terms().service {
            Reference::Found(found) => Some(service(found)),
            Reference::Unnamed | Reference::Missing => None,
        },
    }
}

fn route(route: &Route) -> Value {
    let mut fields = Map::new();
    fields.insert("id".into(), json!(route.id.as_str()));
    described(&mut fields, route.name.as_deref(), route.desc.as_deref(), &route.labels);
    match route.uris.as_slice() {
        [uri] => fields.insert("uri".into(), json!(uri)),
        uris => fields.insert("uris".into(), json!(uris)),
    };
    if !route.hosts.is_empty() {
        fields.insert("hosts".into(), json!(route.hosts));
    }
    if let Some(methods) = route.methods {
        fields.insert("methods".into(), json!(methods.names().collect::<Vec<_>>()));
    }
    if !route.remote_addrs.is_empty() {
        let networks: Vec<String> = route.remote_addrs.iter().map(ToString::to_string).collect();
        fields.insert("remote_addrs".into(), json!(networks));
    }
    if let Some(vars) = &route.vars {
        fields.extend(serde_json::from_str(&vars.to_string()).map(|vars| ("vars".into(), vars)));
    }
    for (name, id) in [
        ("service_id", &route.service_id),
        ("upstream_id", &route.upstream_id),
        ("plugin_config_id", &route.plugin_config_id),
    ] {
        fields.extend(id.as_ref().map(|id| (name.to_owned(), json!(id.as_str()))));
    }
    fields.insert("priority".into(), json!(route.priority));
    fields.insert("status".into(), json!(i32::from(route.enabled)));
    Value::Object(fields)
}

fn service(service: &Service) -> Value {
    let mut fields = Map::new();
    fields.insert("id".into(), json!(service.id.as_str()));
    described(&mut fields, service.name.as_deref(), service.desc.as_deref(), &service.labels);
    if !service.hosts.is_empty() {
        fields.insert("hosts".into(), json!(service.hosts));
    }
    let id = service.upstream_id.as_ref();
    fields.extend(id.map(|id| ("upstream_id".to_owned(), json!(id.as_str()))));
    Value::Object(fields)
}

fn described(
    fields: &mut Map<String, Value>,
    name: Option<&str>,
    desc: Option<&str>,
    labels: &BTreeMap<String, String>,
) {
    fields.extend(name.map(|name| ("name".to_owned(), json!(name))));
    fields.extend(desc.map(|desc| ("desc".to_owned(), json!(desc))));
    if !labels.is_empty() {
        fields.insert("labels".into(), json!(labels));
    }
}
