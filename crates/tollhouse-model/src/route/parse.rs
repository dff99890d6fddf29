//! Parser of routes, by the schema of APISIX's Admin API.

use std::sync::Arc;

use serde_json::Value;

use super::{MethodSet, Route};
use crate::limits::ROUTE_URI_CHARS_MAX;
use crate::reader::{Fields, Reader, Unknown};
use crate::{Id, Problems, Upstream, plugins};

const FIELDS: [&str; 24] = [
    "id",
    "uri",
    "uris",
    "priority",
    "methods",
    "host",
    "hosts",
    "remote_addr",
    "remote_addrs",
    "vars",
    "filter_func",
    "script",
    "script_id",
    "plugins",
    "plugin_config_id",
    "upstream",
    "upstream_id",
    "service_id",
    "timeout",
    "enable_websocket",
    "status",
    "name",
    "desc",
    "labels",
];

/// Fields that act on a request. At least one is required beside `uri` or `uris`.
const ACTIONS: [&str; 5] = ["plugins", "upstream", "upstream_id", "service_id", "script"];

/// Length of a text in Lua, as in APISIX's schema.
const LUA_CHARS: std::ops::RangeInclusive<usize> = 10..=102_400;

const NEEDS_ACTION: &str = "object matches none of the required: [\"plugins\",\"uri\"] or \
     [\"upstream\",\"uri\"] or [\"upstream_id\",\"uri\"] or [\"service_id\",\"uri\"] or \
     [\"plugins\",\"uris\"] or [\"upstream\",\"uris\"] or [\"upstream_id\",\"uris\"] or \
     [\"service_id\",\"uris\"] or [\"script\",\"uri\"] or [\"script\",\"uris\"]";

impl Route {
    /// Parses a document; returns `None` if any problem is an error.
    pub fn parse(id: Id, value: &Value, path: &str) -> (Option<Self>, Problems) {
        let mut problems = Problems::new();
        let mut reader = Reader::new(path, &mut problems);
        let route = reader
            .record(value, &FIELDS, Unknown::Refused)
            .map(|fields| read(&mut reader, id, fields));
        (route.filter(|_| !problems.has_errors()), problems)
    }
}

fn read(reader: &mut Reader<'_>, id: Id, fields: &Fields) -> Route {
    check_together(reader, fields);
    reader.own_keys(fields, Some(&id));
    let description = reader.description(fields);
    // Read before the struct, because the default differs from `bool::default()`.
    let enabled = reader.optional(fields, "status", |reader, value| read_status(reader, value));
    Route {
        id,
        uris: read_uris(reader, fields),
        priority: reader
            .optional(fields, "priority", |reader, value| {
                reader.integer(value, i64::MIN..=i64::MAX)
            })
            .unwrap_or_default(),
        methods: reader.optional(fields, "methods", read_methods).flatten(),
        hosts: read_hosts(reader, fields),
        remote_addrs: read_remote_addrs(reader, fields),
        vars: reader.optional(fields, "vars", Reader::expression),
        filter_func: reader.optional(fields, "filter_func", |reader, value| {
            let text = read_lua(reader, value)?;
            reader.matching(value, "^function", |text| text.starts_with("function"))?;
            Some(text)
        }),
        script: reader.optional(fields, "script", read_lua),
        plugins: reader
            .optional(fields, "plugins", |reader, value| Some(plugins::read(reader, value)))
            .unwrap_or_default(),
        plugin_config_id: reader.optional(fields, "plugin_config_id", Reader::id),
        upstream: reader.optional(fields, "upstream", Upstream::read_inline).map(Arc::new),
        upstream_id: reader.optional(fields, "upstream_id", Reader::id),
        service_id: reader.optional(fields, "service_id", Reader::id),
        timeout: reader.optional(fields, "timeout", Reader::timeouts),
        enable_websocket: reader.optional(fields, "enable_websocket", Reader::boolean),
        enabled: enabled.unwrap_or(true),
        name: description.name,
        desc: description.desc,
        labels: description.labels,
    }
}

fn read_lua(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    reader.text_within(value, LUA_CHARS).map(str::to_owned)
}

/// Checks rules that involve several fields.
fn check_together(reader: &mut Reader<'_>, fields: &Fields) {
    match (fields.contains_key("uri"), fields.contains_key("uris")) {
        (true, true) => {
            let reason = "value should match only one schema, but matches both schemas 1 and 2";
            reader.error_unquoted(reason, "give either \"uri\" or \"uris\"");
        }
        (false, false) => {
            let reason = "value should match only one schema, but matches none";
            reader.error_unquoted(reason, "give \"uri\", such as \"/api/*\", or a list \"uris\"");
        }
        _ => {}
    }
    for (one, many) in [("host", "hosts"), ("remote_addr", "remote_addrs")] {
        if fields.contains_key(one) && fields.contains_key(many) {
            let reason = format!("only one of {one} or {many} is allowed");
            reader.error_unquoted(reason, &format!("move \"{one}\" into \"{many}\""));
        }
    }
    if !ACTIONS.iter().any(|name| fields.contains_key(*name)) {
        let hint = "give \"upstream\", \"upstream_id\", \"service_id\" or \"plugins\"";
        reader.error_unquoted(NEEDS_ACTION, hint);
    }
    reader.refuse_lua(fields, "script_id", "put the text into \"script\"");
}

fn read_uris(reader: &mut Reader<'_>, fields: &Fields) -> Vec<String> {
    let one = reader.optional(fields, "uri", |reader, value| read_uri(reader, value));
    let many = reader.optional(fields, "uris", |reader, value| {
        let items = reader.unique_list_not_empty(value)?;
        reader.items(items, read_uri)
    });
    many.unwrap_or_else(|| one.into_iter().collect())
}

fn read_uri(reader: &mut Reader<'_>, value: &Value) -> Option<String> {
    let uri = reader.text_within(value, 1..=ROUTE_URI_CHARS_MAX)?;
    if !uri.starts_with(['/', '*']) {
        reader.warning(value, "matches no request", "begin it with \"/\"");
    }
    Some(uri.to_owned())
}

fn read_hosts(reader: &mut Reader<'_>, fields: &Fields) -> Vec<String> {
    let one = reader
        .optional(fields, "host", |reader, value| reader.host(value).map(str::to_ascii_lowercase));
    let many = reader.optional(fields, "hosts", Reader::hosts);
    many.unwrap_or_else(|| one.into_iter().collect())
}

fn read_remote_addrs(reader: &mut Reader<'_>, fields: &Fields) -> Vec<ipnet::IpNet> {
    let one = reader.optional(fields, "remote_addr", Reader::network);
    let many = reader.optional(fields, "remote_addrs", Reader::networks);
    many.unwrap_or_else(|| one.into_iter().collect())
}

/// Reads `methods`; `Some(None)` for an empty list, which allows every method.
fn read_methods(reader: &mut Reader<'_>, value: &Value) -> Option<Option<MethodSet>> {
    let items = reader.unique_list(value)?;
    let mut set = MethodSet::EMPTY;
    for (index, item) in items.iter().enumerate() {
        reader.in_item(index, |reader| {
            let Some(name) = reader.text(item) else { return };
            match set.with(name) {
                Some(larger) => set = larger,
                None => {
                    let hint = format!("use one of {}", MethodSet::NAMES.join(", "));
                    reader.error(item, "matches none of the enum values", &hint);
                }
            }
        });
    }
    Some((set != MethodSet::EMPTY).then_some(set))
}

fn read_status(reader: &mut Reader<'_>, value: &Value) -> Option<bool> {
    match reader.integer(value, i64::MIN..=i64::MAX)? {
        0 => Some(false),
        1 => Some(true),
        _ => {
            reader.error(value, "matches none of the enum values", "1 is on, 0 is off");
            None
        }
    }
}
