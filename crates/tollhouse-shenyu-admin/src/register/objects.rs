//! Selectors, rules, metadata and upstreams made from registrations.

use std::sync::Arc;

use serde_json::{Value, json};

use super::Event;
use crate::answer::Refusal;
use crate::clock;
use crate::draft::Draft;
use crate::limits::UPSTREAMS_MAX;
use crate::probe::AWAY_SINCE;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::{Name, Tables};

/// Default weight of a node, as in ShenYu's forms.
const WEIGHT: i64 = 50;

/// Default warm-up time of a node, in milliseconds: practically none.
const WARM_UP_MS: i64 = 10;

/// Facts that identify a registered service.
struct Service {
    /// Plugin that proxies to the service.
    plugin: &'static str,
    rpc_type: String,
    /// Path prefix of the service, with a leading slash.
    context_path: String,
    app_name: String,
}

impl Service {
    fn read(row: &Row) -> Result<Self, Refusal> {
        let rpc_type = row::filled(row, "rpcType").unwrap_or_else(|| "http".to_owned());
        let plugin = match rpc_type.as_str() {
            "http" => "divide",
            "springCloud" => "springCloud",
            "websocket" => "websocket",
            "grpc" => "grpc",
            "dubbo" => "dubbo",
            "sofa" => "sofa",
            "tars" => "tars",
            "motan" => "motan",
            "tcp" => "tcp",
            _ => return Err(Refusal::invalid("rpcType", "no plugin supports it")),
        };
        let app_name = row::filled(row, "appName").unwrap_or_default();
        let path = row::filled(row, "contextPath").unwrap_or_else(|| app_name.clone());
        let path = path.trim_end_matches("/**").trim_matches('/');
        if path.is_empty() {
            return Err(Refusal::invalid(
                "contextPath",
                "a registration has a contextPath or an appName",
            ));
        }
        Ok(Self { plugin, rpc_type, context_path: format!("/{path}"), app_name })
    }

    /// Whether the service speaks HTTP or WebSocket, so that the context path is removed from
    /// request paths.
    fn is_http(&self) -> bool {
        matches!(self.plugin, "divide" | "springCloud" | "websocket")
    }

    fn selector_name(&self, plugin: &str, namespace: &str) -> Name {
        Name {
            table: Table::Selector,
            namespace: namespace.to_owned(),
            parent: plugin.to_owned(),
            name: self.context_path.clone(),
        }
    }
}

/// Whether a registration adds an address that is already online in all of its namespaces.
pub(super) fn is_known(tables: &Tables, row: &Row) -> bool {
    if Event::read(row) != Ok(Event::There) {
        return false;
    }
    let Ok(service) = Service::read(row) else { return false };
    let Ok(url) = address(row) else { return false };
    super::namespaces(row).iter().all(|namespace| {
        let name = service.selector_name(service.plugin, namespace);
        let selector = tables.ids(&name).next();
        let discovered = selector.and_then(|id| tables.get(Table::DiscoveryUpstream, id));
        discovered.is_some_and(|stored| {
            row::rows(&stored.row, "upstreamDataList").any(|upstream| {
                row::text(upstream, "url").as_ref() == Some(&url)
                    && row::number(upstream, "status") == Some(0)
            })
        })
    })
}

/// Returns the `host:port` of a registration.
fn address(row: &Row) -> Result<String, Refusal> {
    let host =
        row::filled(row, "host").ok_or_else(|| Refusal::invalid("host", "must not be null"))?;
    let port = row::number(row, "port").filter(|port| (1..=65_535).contains(port));
    let port = port.ok_or_else(|| Refusal::invalid("port", "must be a port from 1 to 65535"))?;
    Ok(format!("{host}:{port}"))
}

/// Returns the protocol as `http://`, whether or not the registration includes the slashes.
fn protocol(row: &Row, service: &Service) -> String {
    let default = match service.plugin {
        "websocket" => "ws",
        "tcp" => "tcp",
        _ => "http",
    };
    let text = row::filled(row, "protocol").unwrap_or_else(|| default.to_owned());
    format!("{}://", text.trim_end_matches("://"))
}

/// Registers a method: the selector of its service, its rule, and its metadata.
pub(super) fn put_method(draft: &mut Draft<'_>, row: &Row, namespace: &str) -> Result<(), Refusal> {
    let service = Service::read(row)?;
    let path =
        row::filled(row, "path").ok_or_else(|| Refusal::invalid("path", "must not be null"))?;
    let path = with_variables(&path);
    let path = if path.starts_with('/') { path } else { format!("/{path}") };
    let selector = ensure_selector(draft, &service, service.plugin, namespace)?;
    let name = row::filled(row, "ruleName").unwrap_or_else(|| path.clone());
    let rule = Rule {
        selector: &selector,
        plugin: service.plugin,
        namespace,
        name: &name,
        condition: Condition::from_path(&path),
    };
    ensure_rule(draft, &rule, &default_handle(service.plugin));
    if service.is_http() {
        let selector = ensure_selector(draft, &service, "contextPath", namespace)?;
        let prefixed = row::flag(row, "addPrefixed").unwrap_or(false);
        let handle = json!({"contextPath": service.context_path, "addPrefixed": prefixed});
        let rule = Rule {
            selector: &selector,
            plugin: "contextPath",
            namespace,
            name: &service.context_path,
            condition: Condition {
                operator: "startsWith",
                value: format!("{}/", service.context_path),
            },
        };
        ensure_rule(draft, &rule, &handle);
    }
    // Requests do not reveal that they belong to Spring Cloud, so one metadata covers all paths
    // below the context path.
    if service.plugin == "springCloud" {
        let below = format!("{}/**", service.context_path);
        put_metadata(draft, &service, row, metadata_name(&below, namespace));
    } else if !service.is_http() || row::flag(row, "registerMetaData") == Some(true) {
        put_metadata(draft, &service, row, metadata_name(&path, namespace));
    }
    Ok(())
}

/// Decodes the braces of path variables, which Java's client of 2.6 sends percent-encoded.
fn with_variables(path: &str) -> String {
    let mut text = path.to_owned();
    for (encoded, brace) in [("%7B", "{"), ("%7b", "{"), ("%7D", "}"), ("%7d", "}")] {
        text = text.replace(encoded, brace);
    }
    text
}

/// Condition of a rule on the path of a request.
#[derive(Debug, PartialEq, Eq)]
struct Condition {
    operator: &'static str,
    value: String,
}

impl Condition {
    /// Chooses the operator by the shape of the path. A path with a variable matches every path
    /// from there on.
    fn from_path(path: &str) -> Self {
        let value = match path.find("/{") {
            Some(at) => format!("{}/**", &path[..at]),
            None => path.to_owned(),
        };
        let operator = match () {
            () if value.ends_with("/**") => "pathPattern",
            () if value.ends_with('/') => "startsWith",
            () if value.contains('*') => "match",
            () => "=",
        };
        Self { operator, value }
    }
}

fn default_handle(plugin: &str) -> Value {
    match plugin {
        "divide" => {
            json!({"loadBalance": "random", "retryStrategy": "current", "retry": 3, "timeout": 3000,
            "headerMaxSize": 10240, "requestMaxSize": 102_400})
        }
        "springCloud" => json!({"path": "", "timeout": 3000, "loadBalance": "random"}),
        "websocket" => json!({"loadBalance": "random", "retry": 3, "timeout": 3000}),
        "dubbo" => json!({"loadBalance": "random", "retries": 3, "timeout": 3000}),
        _ => json!({"loadBalance": "random"}),
    }
}

/// Converts a value to a row and sets its creation and update times.
fn dated(draft: &Draft<'_>, value: Value) -> Row {
    let mut row = match value {
        Value::Object(row) => row,
        _ => Row::new(),
    };
    row.entry("dateCreated").or_insert_with(|| draft.now.clone().into());
    row.insert("dateUpdated".to_owned(), draft.now.clone().into());
    row
}

/// Returns the id of a service's selector. Creates it if missing; an existing one is left to the
/// operator.
fn ensure_selector(
    draft: &mut Draft<'_>,
    service: &Service,
    plugin: &str,
    namespace: &str,
) -> Result<String, Refusal> {
    let name = service.selector_name(plugin, namespace);
    // Services register at every start, so overwriting would undo an operator's changes.
    if let Some((id, _)) = draft.find(&name) {
        return Ok(id);
    }
    let by_name =
        Name { table: Table::Plugin, parent: String::new(), name: plugin.to_owned(), ..name };
    let plugin_row = draft.find(&by_name);
    let (plugin_id, _) = plugin_row.ok_or_else(|| {
        Refusal::error(format!(
            "the plugin {plugin} is not in the namespace {namespace}; add it there first"
        ))
    })?;
    let id = clock::new_id();
    let handle = if plugin == "springCloud" {
        json!({"serviceId": service.app_name}).to_string()
    } else {
        String::new()
    };
    let below = format!("{}/", service.context_path);
    let selector = json!({
        "id": id, "pluginId": plugin_id, "pluginName": plugin, "name": service.context_path,
        "matchMode": 0, "type": 1, "sort": 1, "enabled": true, "logged": true, "continued": true,
        "handle": handle, "matchRestful": false, "namespaceId": namespace,
        "conditionList": [{"paramType": "uri", "operator": "startsWith", "paramName": "/", "paramValue": below}],
    });
    let selector = dated(draft, selector);
    draft.put(Table::Selector, &id, selector);
    Ok(id)
}

struct Rule<'a> {
    selector: &'a str,
    plugin: &'a str,
    namespace: &'a str,
    name: &'a str,
    condition: Condition,
}

fn ensure_rule(draft: &mut Draft<'_>, rule: &Rule<'_>, handle: &Value) {
    let Condition { operator, value } = &rule.condition;
    let name = Name {
        table: Table::Rule,
        namespace: rule.namespace.to_owned(),
        parent: rule.selector.to_owned(),
        name: rule.name.to_owned(),
    };
    if draft.find(&name).is_some() {
        return;
    }
    let id = clock::new_id();
    let made = json!({
        "id": id, "selectorId": rule.selector, "pluginName": rule.plugin, "name": rule.name,
        "matchMode": 0, "sort": 1, "enabled": true, "loged": true, "handle": handle.to_string(),
        "matchRestful": false, "namespaceId": rule.namespace,
        "conditionDataList": [{"paramType": "uri", "operator": operator, "paramName": "/", "paramValue": value}],
    });
    let made = dated(draft, made);
    draft.put(Table::Rule, &id, made);
}

fn metadata_name(path: &str, namespace: &str) -> Name {
    Name {
        table: Table::Metadata,
        namespace: namespace.to_owned(),
        parent: String::new(),
        name: path.to_owned(),
    }
}

fn put_metadata(draft: &mut Draft<'_>, service: &Service, row: &Row, name: Name) {
    let before = draft.find(&name);
    let Name { name: path, namespace, .. } = name;
    let id = before.as_ref().map_or_else(clock::new_id, |(id, _)| id.clone());
    let mut made = json!({
        "id": id, "appName": service.app_name, "contextPath": service.context_path, "path": path,
        "pathDesc": row::text(row, "pathDesc"), "rpcType": service.rpc_type,
        "serviceName": row::text(row, "serviceName"), "methodName": row::text(row, "methodName"),
        "ruleName": row::text(row, "ruleName"), "parameterTypes": row::text(row, "parameterTypes"),
        "rpcExt": row::document(row, "rpcExt"), "enabled": row::flag(row, "enabled").unwrap_or(true),
        "namespaceId": namespace,
    });
    let same = |before: &Row| {
        made.as_object().is_some_and(|made| {
            made.iter().all(|(member, value)| before.get(member) == Some(value))
        })
    };
    let Some((_, before)) = before else {
        let made = dated(draft, made);
        return draft.put(Table::Metadata, &id, made);
    };
    // Services register at every start, so unchanged metadata is not written.
    if !same(&before) {
        made["dateCreated"] = before.get("dateCreated").cloned().unwrap_or_default();
        let made = dated(draft, made);
        draft.put(Table::Metadata, &id, made);
    }
}

/// Registers an address as an online node of the service's selector. A node that was offline counts
/// as freshly started.
pub(super) fn put_address(
    draft: &mut Draft<'_>,
    row: &Row,
    namespace: &str,
) -> Result<(), Refusal> {
    let service = Service::read(row)?;
    let url = address(row)?;
    // The address may be registered before any method.
    let selector = ensure_selector(draft, &service, service.plugin, namespace)?;
    let protocol = protocol(row, &service);
    let mut nodes = nodes(draft, &selector);
    let count = nodes.len();
    let node = nodes.iter_mut().find(|node| row::text(node, "url").as_ref() == Some(&url));
    match node {
        Some(node) if row::number(node, "status") == Some(0) => return Ok(()),
        Some(node) => {
            node.insert("status".to_owned(), 0.into());
            node.remove(AWAY_SINCE);
            node.insert("startedMs".to_owned(), clock::now_ms().into());
            node.insert("dateUpdated".to_owned(), draft.now.clone().into());
        }
        None if count >= UPSTREAMS_MAX => {
            return Err(Refusal::error(format!(
                "a selector has at most {UPSTREAMS_MAX} upstreams"
            )));
        }
        None => {
            let props = json!({"warmup": WARM_UP_MS, "gray": false, "healthCheckEnabled": true});
            let node = json!({"id": clock::new_id(), "discoveryHandlerId": selector, "protocol": protocol,
                "url": url, "status": 0, "weight": WEIGHT, "props": props.to_string(), "namespaceId": namespace,
                "startedMs": clock::now_ms()});
            nodes.push(dated(draft, node));
        }
    }
    put_nodes(draft, &selector, nodes);
    Ok(())
}

/// Removes an address from its service's selector, if present.
pub(super) fn remove_address(
    draft: &mut Draft<'_>,
    row: &Row,
    namespace: &str,
) -> Result<(), Refusal> {
    let service = Service::read(row)?;
    let url = address(row)?;
    let Some((selector, _)) = draft.find(&service.selector_name(service.plugin, namespace)) else {
        return Ok(());
    };
    let mut nodes = nodes(draft, &selector);
    let count = nodes.len();
    nodes.retain(|node| row::text(node, "url").as_ref() != Some(&url));
    if nodes.len() < count {
        put_nodes(draft, &selector, nodes);
    }
    Ok(())
}

fn nodes(draft: &Draft<'_>, selector: &str) -> Vec<Row> {
    let discovered: Option<Arc<Row>> = draft.get(Table::DiscoveryUpstream, selector);
    discovered.map(|it| row::rows(&it, "upstreamDataList").cloned().collect()).unwrap_or_default()
}

/// Writes the nodes where gateways since 2.6.1 read them, and also into the selector's handle for
/// older gateways.
fn put_nodes(draft: &mut Draft<'_>, selector_id: &str, nodes: Vec<Row>) {
    let Some(selector) = draft.get(Table::Selector, selector_id) else { return };
    let mut selector = (*selector).clone();
    let plugin = row::text(&selector, "pluginName").unwrap_or_default();
    let list: Vec<Value> = nodes.iter().map(handle_node).collect();
    let handle = if plugin == "springCloud" {
        let text = row::text(&selector, "handle").unwrap_or_default();
        let mut handle: Row = serde_json::from_str(&text).unwrap_or_default();
        handle.insert("divideUpstreams".to_owned(), list.into());
        Value::Object(handle)
    } else {
        Value::Array(list)
    };
    selector.insert("handle".to_owned(), handle.to_string().into());
    selector.insert("dateUpdated".to_owned(), draft.now.clone().into());
    let discovered = json!({
        "selectorId": selector_id, "pluginName": plugin, "selectorName": selector.get("name"),
        "discoveryHandlerId": selector_id, "namespaceId": selector.get("namespaceId"),
        "upstreamDataList": nodes,
    });
    draft.put(Table::Selector, selector_id, selector);
    let discovered = dated(draft, discovered);
    draft.put(Table::DiscoveryUpstream, selector_id, discovered);
}

/// Converts a node to its form in a selector's handle.
fn handle_node(node: &Row) -> Value {
    json!({
        "upstreamHost": "localhost", "protocol": node.get("protocol"), "upstreamUrl": node.get("url"),
        "weight": node.get("weight"), "warmup": WARM_UP_MS, "status": row::number(node, "status") == Some(0),
        "timestamp": 0, "gray": false, "healthCheckEnabled": true, "namespaceId": node.get("namespaceId"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_takes_a_path_by_its_shape() {
        let cases = [
            ("/order/findById", "=", "/order/findById"),
            ("/order/", "startsWith", "/order/"),
            ("/order/**", "pathPattern", "/order/**"),
            ("/order/*/items", "match", "/order/*/items"),
            ("/order/path/{id}/name", "pathPattern", "/order/path/**"),
            ("/order/path/%7Bid%7D/name", "pathPattern", "/order/path/**"),
        ];
        for (path, operator, value) in cases {
            let condition = Condition::from_path(&with_variables(path));
            assert_eq!(condition, Condition { operator, value: value.to_owned() }, "{path}");
        }
    }
}
