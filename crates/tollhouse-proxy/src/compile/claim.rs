//! What can be read of a route that cannot be read as a whole: which requests or connections are its own, so that
//! it can refuse them. Left out, it would leave them to a broader one, which may protect less.
//!
//! Paths and hosts are claimed one by one: what cannot be read among them is no path and no host of a request.
//! Any other condition that cannot be read is left out, so that all requests are claimed that it may have been
//! meant for; a priority that cannot be read is the highest. Where nothing says where requests or connections come
//! in (no path and no host; none of a stream route's conditions), nothing is claimed: it would be the whole
//! gateway.

use serde_json::{Map, Value, json};
use tollhouse_model::encryption::Keyring;
use tollhouse_model::{Id, Problem, Route, StreamRoute};

use super::plugins::Unreadable;

/// The fields beside paths and hosts that say which requests or connections are a route's own.
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

/// The same with those that take no part where they cannot be read.
const PATHS: [&str; 2] = ["uri", "uris"];
const HOSTS: [&str; 2] = ["host", "hosts"];

/// All paths of a host.
const ANY_PATH: &str = "/*";

/// A route of which only a part can be read.
#[derive(Debug)]
pub(super) struct Claim<T> {
    /// What is to refuse.
    pub route: T,
    /// Which part of it cannot be read.
    pub unreadable: Unreadable,
    /// Names of conditions that cannot be read, and are left out.
    pub left_out: Vec<&'static str>,
}

/// What can be read of a route: the rest without its plugins, or else what says which requests are its own.
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
    // Hosts of a service are those of its routes that have none of their own.
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
    // Something to do, without which no route is one.
    kept.insert("plugins".into(), json!({}));
    let route = parse(Value::Object(kept))?;
    Some(Claim { route, unreadable: Unreadable::Route, left_out })
}

/// What can be read of a stream route, in the same way.
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
    // One that never said anything takes every connection, and goes on to do so.
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
    /// What is said beside the errors: which requests are refused.
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
    /// What is said beside the errors: which connections are refused.
    pub(super) fn notice(&self, path: &str) -> Problem {
        notice(path, "connections", &self.left_out)
    }
}

fn notice(path: &str, what: &str, left_out: &[&str]) -> Problem {
    let problem = Problem::warning(path, format!("{what} are refused until this is mended"));
    match left_out {
        [] => problem.with_hint("a broader route, which may protect less, is not to answer them"),
        names => problem.with_hint(format!(
            "a broader route is not to answer them; what {} may say of them cannot be read, and \
             is left out",
            names.join(" and ")
        )),
    }
}

/// What is said of a route of which nothing can be claimed.
pub(super) fn nothing_claimed(path: &str, what: &str) -> Problem {
    let problem = Problem::warning(path, format!("it is not known which {what} are its own"));
    problem.with_hint("it refuses none of them: another route may answer them until this is mended")
}

/// Conditions that can be read, and the names of those that cannot.
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
    if fields.contains_key("filter_func") {
        left_out.push("filter_func");
    }
    // Only one of them may be given: both together are no condition that can be told.
    if kept.contains_key("remote_addr") && kept.contains_key("remote_addrs") {
        kept.shift_remove("remote_addr");
        kept.shift_remove("remote_addrs");
        left_out.push("remote_addrs");
    }
    (kept, left_out)
}

/// Those items of two fields, a single one and a list, that can be read, each once; and whether these are all.
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

/// The object with no plugins at all, in the place of those that cannot be read.
fn without_plugins(value: &Value) -> Option<Value> {
    let mut bare = value.clone();
    bare.as_object_mut()?.insert("plugins".into(), json!({}));
    (!has_gap(&bare)).then_some(bare)
}

/// Whether a value is missing within: one that is sealed and no key has opened, which would be taken for what it hides, or
/// `null`, as it stands for a variable that is not set.
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
