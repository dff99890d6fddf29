//! Claim of an invalid route: the readable conditions that tell which requests or connections the
//! route would match, so that they can be refused. Otherwise a broader route with less protection
//! could take them.
//!
//! Paths and hosts are claimed one by one; an unreadable path or host is skipped. Any other
//! unreadable condition is ignored, so that the claim covers every request that it might have
//! matched. An unreadable priority counts as the highest. A route without a readable path or host,
//! or a stream route without a readable condition, claims nothing, because the claim would cover
//! the whole gateway.

use serde_json::{Map, Value, json};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Problem, Route, StreamRoute};

use super::plugins::Unreadable;

/// Conditions of a route or stream route other than paths and hosts.
const FURTHER: [&str; 9] = [
    "priority",
    "methods",
    "remote_addr",
    "remote_addrs",
    "vars",
    "status",
    "server_addr",
    "server_port",
    "sni",
];

/// Names of the path fields. Unreadable paths and hosts are skipped.
const PATHS: [&str; 2] = ["uri", "uris"];
const HOSTS: [&str; 2] = ["host", "hosts"];

/// Pattern of all paths of a host.
const ANY_PATH: &str = "/*";

/// An invalid route of which a part can be read.
#[derive(Debug)]
pub(super) struct Claim<T> {
    /// Route of the claim, which refuses all its requests.
    pub route: T,
    pub unreadable: Unreadable,
    /// Names of unreadable conditions that were ignored.
    pub left_out: Vec<&'static str>,
}

/// Returns the claim of an HTTP route: the whole route without its plugins if it parses, else only
/// its matching conditions.
pub(super) fn route(id: &Id, value: &Value, path: &str) -> Option<Claim<Route>> {
    let parse = |fields: Value| Route::parse(id.clone(), &fields, path).0;
    if let Some(claim) = without_plugins(value).and_then(&parse) {
        return Some(Claim::from_plugins(claim));
    }
    let fields = value.as_object()?;
    let bare = json!({"uri": "/", "plugins": {}});
    let is_good = |name: &str, value: &Value| {
        let mut probe = bare.clone();
        if let Some(probe) = probe.as_object_mut() {
            if PATHS.contains(&name) {
                probe.remove("uri");
            }
            probe.insert(name.to_owned(), value.clone());
        }
        !has_gap(value) && parse(probe).is_some()
    };
    let (mut kept, mut left_out) = further(fields, &is_good);
    let (paths, all_paths) = listed(fields, PATHS, &is_good);
    let (hosts, all_hosts) = listed(fields, HOSTS, &is_good);
    if !all_paths {
        left_out.push(PATHS[0]);
    }
    if !all_hosts {
        left_out.push(HOSTS[0]);
    }
    // A route without hosts takes those of its service.
    let service = fields.get("service_id").filter(|_| hosts.is_empty() && all_hosts);
    if let Some(service) = service.filter(|service| is_good("service_id", service)) {
        kept.insert("service_id".into(), service.clone());
    }
    match (paths.is_empty(), hosts.is_empty()) {
        (true, true) => return None,
        (true, false) => drop(kept.insert("uris".into(), json!([ANY_PATH]))),
        (false, _) => drop(kept.insert("uris".into(), Value::Array(paths))),
    }
    if !hosts.is_empty() {
        kept.insert("hosts".into(), Value::Array(hosts));
    }
    // A route must have an upstream or plugins to be valid.
    kept.insert("plugins".into(), json!({}));
    let route = parse(Value::Object(kept))?;
    Some(Claim { route, unreadable: Unreadable::Route, left_out })
}

/// Returns the claim of an invalid stream route, by the rules for HTTP routes.
pub(super) fn stream_route(id: &Id, value: &Value, path: &str) -> Option<Claim<StreamRoute>> {
    let parse = |fields: Value| StreamRoute::parse(id.clone(), &fields, path).0;
    if let Some(claim) = without_plugins(value).and_then(&parse) {
        return Some(Claim::from_plugins(claim));
    }
    let fields = value.as_object()?;
    let is_good = |name: &str, value: &Value| {
        let mut probe = Map::new();
        probe.insert(name.to_owned(), value.clone());
        !has_gap(value) && parse(Value::Object(probe)).is_some()
    };
    let (mut kept, left_out) = further(fields, &is_good);
    // A stream route without any condition matches every connection, and so does its claim.
    let says_nothing = kept.is_empty();
    if says_nothing && !left_out.is_empty() {
        return None;
    }
    kept.insert("plugins".into(), json!({}));
    let route = parse(Value::Object(kept))?;
    Some(Claim { route, unreadable: Unreadable::Route, left_out })
}

impl<T> Claim<T> {
    fn from_plugins(route: T) -> Self {
        Self { route, unreadable: Unreadable::Plugins, left_out: Vec::new() }
    }
}

impl Claim<Route> {
    /// Returns the problem that tells the operator which requests are refused.
    pub(super) fn notice(&self, path: &str) -> Problem {
        let paths = self.route.uris.join(", ");
        let at = match self.route.hosts.as_slice() {
            [] => String::new(),
            hosts => format!(" at {}", hosts.join(", ")),
        };
        notice(path, &format!("requests to {paths}{at}"), &self.left_out)
    }
}

impl Claim<StreamRoute> {
    /// Returns the problem that tells the operator that connections are refused.
    pub(super) fn notice(&self, path: &str) -> Problem {
        notice(path, "connections", &self.left_out)
    }
}

fn notice(path: &str, what: &str, left_out: &[&str]) -> Problem {
    let problem = Problem::warning(path, format!("{what} are refused until this is mended"));
    match left_out {
        [] => problem.with_hint("this keeps them from a broader route, which may protect less"),
        names => problem.with_hint(format!(
            "this keeps them from a broader route; conditions in {} cannot be read and are \
             ignored",
            names.join(" and ")
        )),
    }
}

/// Returns the problem for a route of which nothing can be claimed.
pub(super) fn nothing_claimed(path: &str, what: &str) -> Problem {
    let problem = Problem::warning(path, format!("it is not known which {what} are its own"));
    problem.with_hint("it refuses none of them: another route may answer them until this is mended")
}

/// Returns the readable conditions, and the names of the unreadable ones.
fn further(
    fields: &Map<String, Value>,
    is_good: &impl Fn(&str, &Value) -> bool,
) -> (Map<String, Value>, Vec<&'static str>) {
    let mut kept = Map::new();
    let mut left_out = Vec::new();
    for name in FURTHER {
        let Some(value) = fields.get(name) else { continue };
        if is_good(name, value) {
            kept.insert(name.into(), value.clone());
            continue;
        }
        left_out.push(name);
        if name == "priority" {
            kept.insert(name.into(), json!(i64::MAX));
        }
    }
    // The route refuses whatever the function would take, because no script runs for a stub.
    if fields.contains_key("filter_func") {
        left_out.push("filter_func");
    }
    // `remote_addr` and `remote_addrs` exclude each other, so both together are unreadable.
    if kept.contains_key("remote_addr") && kept.contains_key("remote_addrs") {
        kept.shift_remove("remote_addr");
        kept.shift_remove("remote_addrs");
        left_out.push("remote_addrs");
    }
    (kept, left_out)
}

/// Returns the readable items of a single-valued and a list field, without duplicates, and whether
/// all items were readable.
fn listed(
    fields: &Map<String, Value>,
    [one, many]: [&str; 2],
    is_good: &impl Fn(&str, &Value) -> bool,
) -> (Vec<Value>, bool) {
    let mut found: Vec<Value> = Vec::new();
    let mut is_whole = true;
    let mut take = |name: &str, item: &Value, probe: &Value| {
        if !is_good(name, probe) {
            is_whole = false;
        } else if !found.contains(item) {
            found.push(item.clone());
        }
    };
    if let Some(item) = fields.get(one) {
        take(one, item, item);
    }
    match fields.get(many) {
        Some(Value::Array(items)) if !items.is_empty() => {
            for item in items {
                take(many, item, &json!([item]));
            }
        }
        Some(other) => take(many, other, other),
        None => {}
    }
    (found, is_whole)
}

/// Returns the object with an empty set of plugins; `None` if another part is unreadable.
fn without_plugins(value: &Value) -> Option<Value> {
    let mut bare = value.clone();
    bare.as_object_mut()?.insert("plugins".into(), json!({}));
    (!has_gap(&bare)).then_some(bare)
}

/// Whether a value contains a gap: a sealed text that no key could open, which would be taken for
/// the plain value, or `null`, which stands for an unset variable.
fn has_gap(value: &Value) -> bool {
    let mut waiting = vec![value];
    while let Some(value) = waiting.pop() {
        match value {
            Value::Null => return true,
            Value::String(text) if Keyring::is_marked(text) => return true,
            Value::Array(items) => waiting.extend(items),
            Value::Object(fields) => waiting.extend(fields.values()),
            Value::String(_) | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    false
}
