//! Calls that only a single resource has.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;
use tollhouse_shenyu_gateway::{Row as PluginRow, rows};

use super::objects::find;
use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::draft::Draft;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::seed::plugin_of_relation;
use crate::table::Table;
use crate::tables::namespace as namespace_id;

/// Answers the calls that only a single resource has. Returns `None` for every other path.
pub(super) async fn answer(admin: &ShenyuAdmin, segments: &[&str], call: &Call) -> Option<Outcome> {
    let (first, rest) = segments.split_first()?;
    match (&call.method, *first, rest) {
        (&Method::GET, "appAuth", ["detailPath"]) => Some(app_paths(admin, call)),
        (&Method::GET, "platform", ["enum"]) => Some(success("query success", enumerations())),
        (_, "plugin" | "plugin-template" | "namespace-plugin" | "appAuth" | "meta-data", rest)
            if refreshed(first, rest).is_some() =>
        {
            let (kinds, message) = refreshed(first, rest)?;
            if let Some(missing) = missing_plugin(admin, rest, call) {
                return Some(Err(missing));
            }
            admin.book.refresh(kinds);
            Some(success(message, Value::Null))
        }
        (&Method::PUT, "plugin" | "plugin-template", ["createPluginResource", _]) => {
            Some(success("create success", Value::Null))
        }
        (&Method::GET, "plugin" | "namespace-plugin", ["snapshot", "active"]) => {
            Some(active(admin, call))
        }
        (&Method::GET, "namespace-plugin", ["all", namespace]) => Some(plugins(admin, namespace)),
        (&Method::POST | &Method::PUT, "namespace-plugin", [namespace, plugin]) => {
            Some(instantiate(admin, namespace, plugin).await)
        }
        (&Method::GET, "shenyu-dict", ["all", kind]) => {
            Some(listed(admin, "shenyu-dict", &[("type", kind)]))
        }
        (&Method::GET, "plugin-handle", ["all", plugin]) => {
            Some(listed(admin, "plugin-handle", &[("pluginId", plugin)]))
        }
        (&Method::GET, "plugin-handle", ["all", plugin, kind]) => {
            Some(listed(admin, "plugin-handle", &[("pluginId", plugin), ("type", kind)]))
        }
        (&Method::GET, "meta-data", ["findAllGroup"]) => Some(metadata_groups(admin)),
        (&Method::POST, "appAuth", ["apply"]) => Some(apply(admin, call).await),
        (_, "appAuth", ["updateSk"]) => Some(update_secret(admin, call).await),
        (&Method::POST, "appAuth", ["updateDetailPath"]) => Some(update_paths(admin, call).await),
        // `platform` is not a table, so the generic resource calls must not see it.
        (_, "platform", _) => Some(Err(no_such_path())),
        _ => None,
    }
}

/// Returns the kinds of objects that a synchronisation call resends, and the message of its answer.
/// ShenYu's message is empty for some calls.
fn refreshed(first: &str, rest: &[&str]) -> Option<(&'static [Kind], &'static str)> {
    match (first, rest) {
        ("appAuth", ["syncData"]) => Some((&[Kind::AppAuth], "")),
        ("meta-data", ["syncData"]) => Some((&[Kind::Metadata], "")),
        (_, ["syncPluginAll"] | ["syncPluginData"] | ["syncPluginData", _]) => Some((
            &[Kind::Plugin, Kind::Selector, Kind::Rule, Kind::DiscoveryUpstream],
            "sync success",
        )),
        _ => None,
    }
}

/// Refuses a synchronisation call whose plugin does not exist. Returns `None` if the plugin exists
/// or none is named.
fn missing_plugin(admin: &ShenyuAdmin, rest: &[&str], call: &Call) -> Option<Refusal> {
    let id = match rest {
        ["syncPluginData"] => call.argument("id").or_else(|| call.argument("pluginId"))?,
        ["syncPluginData", id] => (*id).to_owned(),
        _ => return None,
    };
    let id = plugin_of_relation(&id).map_or(id, str::to_owned);
    let is_there = admin.book.read().get(Table::Plugin, &id).is_some();
    (!is_there).then(|| Refusal::not_existed("plugin is not existed"))
}

/// RPC types offered in the forms of metadata.
const RPC_TYPES: &[&str] = &["http", "dubbo", "sofa", "tars", "springCloud", "grpc", "websocket"];

/// Lists ShenYu's plugins with their order in the chain, including those that have no row.
fn plugin_values() -> Vec<Value> {
    let mut plugins: Vec<&PluginRow> = rows().collect();
    plugins.sort_by_key(|plugin| (plugin.role.order, plugin.name));
    let value = |it: &PluginRow| json!({"code": it.role.order, "name": it.name, "support": true});
    plugins.into_iter().map(value).collect()
}

fn enumerations() -> Value {
    let values = |known: &[&str]| -> Vec<Value> {
        known.iter().map(|name| json!({"code": null, "name": name, "support": true})).collect()
    };
    let numbered = |known: &[&str], first: usize| -> Vec<Value> {
        let value = |(code, name)| json!({"code": code, "name": name, "support": true});
        (first..).zip(known).map(value).collect()
    };
    json!({
        "hystrixIsolationModeEnums": numbered(&["thread", "semaphore"], 0),
        "pluginEnums": plugin_values(),
        "pluginTypeEnums": values(&["before", "function", "last"]),
        "serializeEnums": values(&["jdk", "kryo", "hessian", "protostuff"]),
        "operatorEnums": values(crate::seed::OPERATORS),
        "paramTypeEnums": values(crate::seed::PARAMETER_TYPES),
        "rpcTypeEnums": values(RPC_TYPES),
        "httpMethodEnums": values(&["get", "post", "put", "delete"]),
        "loadBalanceEnums": numbered(crate::seed::LOAD_BALANCERS, 1),
        "redisModeEnums": values(&["cluster", "sentinel", "standalone"]),
        "wafEnums": numbered(&["reject", "allow"], 0),
        "matchModeEnums": numbered(&["and", "or"], 0),
        "selectorTypeEnums": numbered(&["full", "custom"], 0),
    })
}

fn plugins(admin: &ShenyuAdmin, wanted: &str) -> Outcome {
    listed_in(admin, "namespace-plugin", |row| namespace_id(row) == wanted)
}

fn active(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let wanted = call.argument("namespaceId").unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned());
    let tables = admin.book.read();
    let count = |id: &str| {
        tables
            .rows(Table::Selector)
            .filter(|(_, row)| row::text(row, "pluginId").as_deref() == Some(id))
            .count()
    };
    let meant = tables
        .rows(Table::Plugin)
        .filter(|(_, row)| namespace_id(row) == wanted && row::flag(row, "enabled") == Some(true));
    let mut rows: Vec<Value> = meant.map(|(id, row)| {
        json!({"id": id, "name": row.get("name"), "config": row.get("config"), "role": row.get("role"),
            "sort": row.get("sort"), "selectorCount": count(id), "handleCount": 0})
    }).collect();
    rows.sort_by_key(|row| row["sort"].as_i64());
    success("query success", rows)
}

fn listed(admin: &ShenyuAdmin, resource: &str, wanted: &[(&str, &str)]) -> Outcome {
    listed_in(admin, resource, |row| {
        wanted.iter().all(|(member, value)| row::text(row, member).as_deref() == Some(*value))
    })
}

fn listed_in(admin: &ShenyuAdmin, resource: &str, is_meant: impl Fn(&Row) -> bool) -> Outcome {
    let resource = Resource::find(resource).ok_or_else(no_such_path)?;
    let tables = admin.book.read();
    let mut rows: Vec<&Arc<Row>> =
        tables.rows(resource.table).map(|(_, row)| row).filter(|row| is_meant(row)).collect();
    rows.sort_by_key(|row| row::number(row, "sort").unwrap_or(i64::MAX));
    let data: Vec<Value> = rows.into_iter().map(|row| resource.view_row(&tables, row)).collect();
    success("query success", data)
}

fn metadata_groups(admin: &ShenyuAdmin) -> Outcome {
    let tables = admin.book.read();
    let mut groups = serde_json::Map::new();
    for (_, row) in tables.rows(Table::Metadata) {
        let name = row::text(row, "appName").unwrap_or_default();
        let group = groups.entry(name).or_insert_with(|| json!([]));
        if let Some(group) = group.as_array_mut() {
            group.push(Value::Object((**row).clone()));
        }
    }
    success("query success", groups)
}

/// Copies a plugin into another namespace.
async fn instantiate(admin: &ShenyuAdmin, namespace: &str, plugin: &str) -> Outcome {
    let (wanted, plugin) = (namespace.to_owned(), plugin.to_owned());
    admin
        .book
        .write(move |draft| {
            if draft.find_all(Table::Namespace, |row| namespace_id(row) == wanted).is_empty() {
                return Err(Refusal::not_found("namespace is not exist"));
            }
            let template = draft.get(Table::Plugin, &plugin);
            let template = template.ok_or_else(|| Refusal::not_found("plugin is not exist"))?;
            instantiate_plugin(draft, &wanted, &template)?;
            success("create success", Value::Null)
        })
        .await
}

/// Copies a plugin into another namespace under a new id.
pub(super) fn instantiate_plugin(
    draft: &mut Draft<'_>,
    namespace: &str,
    template: &Row,
) -> Result<(), Refusal> {
    let resource = Resource::find("namespace-plugin").ok_or_else(no_such_path)?;
    let mut body = template.clone();
    body.insert("namespaceId".to_owned(), namespace.into());
    body.insert("pluginId".to_owned(), template.get("id").cloned().unwrap_or_default());
    let id = clock::new_id();
    let made = resource.make_row(draft, &id, &body, None)?;
    draft.put(Table::Plugin, &id, made);
    Ok(())
}

/// Creates an application with a random key and secret. If the body names the key of an existing
/// application, replaces the paths and parameters of that application.
async fn apply(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let mut body = call.object()?.clone();
    let paths = body.get("pathList").map(row::texts).unwrap_or_default();
    let is_open = row::flag(&body, "open").unwrap_or(false);
    let Some(name) = row::filled(&body, "appName").filter(|_| !is_open || !paths.is_empty()) else {
        return Err(Refusal::error("parameter error"));
    };
    let parameter = json!({"appName": name, "appParam": row::text(&body, "appParam")});
    body.insert("authParamList".to_owned(), json!([parameter]));
    let path = |path: String| json!({"appName": name, "path": path, "enabled": true});
    let paths: Vec<Value> = paths.into_iter().map(path).collect();
    body.insert("authPathList".to_owned(), paths.into());
    let known = row::filled(&body, "appKey");
    let key = known.clone().map_or_else(random_key, Ok)?;
    if known.is_none() {
        body.insert("appKey".to_owned(), key.clone().into());
        body.insert("appSecret".to_owned(), random_key()?.into());
    }
    let message = if known.is_some() { "update success" } else { "create success" };
    admin
        .book
        .write(move |draft| {
            let resource = Resource::find("appAuth").ok_or_else(no_such_path)?;
            let before = draft.get(Table::AppAuth, &key);
            if known.is_some() && before.is_none() {
                return Err(Refusal::error("app key not exist"));
            }
            let id = before.as_ref().and_then(|before| row::text(before, "id"));
            let id = id.unwrap_or_else(clock::new_id);
            let made = resource.make_row(draft, &id, &body, before.as_deref())?;
            draft.put(Table::AppAuth, &key, made);
            success(message, Value::Null)
        })
        .await
}

/// Answers with the paths of an application.
fn app_paths(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let missing = || Refusal::not_found("auth path not existed");
    let id = call.argument("id").ok_or_else(|| Refusal::invalid("id", "must not be null"))?;
    let tables = admin.book.read();
    let mut rows = tables.rows(Table::AppAuth);
    let (_, app) = rows
        .find(|(key, row)| *key == id || row::text(row, "id").as_ref() == Some(&id))
        .ok_or_else(missing)?;
    success("detail success", app.get("pathDataList").cloned().unwrap_or_else(|| json!([])))
}

/// Returns 32 random hexadecimal digits in upper case.
fn random_key() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Refusal::error("the system's random number generator is unavailable"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02X}")).collect())
}

async fn update_secret(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let (key, secret) = (call.argument("appKey"), call.argument("appSecret"));
    let key = key.ok_or_else(|| Refusal::invalid("appKey", "must not be null"))?;
    let secret = secret.ok_or_else(|| Refusal::invalid("appSecret", "must not be null"))?;
    change_app(admin, key, move |app| {
        app.insert("appSecret".to_owned(), secret.clone().into());
    })
    .await
}

async fn update_paths(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let body = call.object()?;
    let id = row::filled(body, "id").ok_or_else(|| Refusal::invalid("id", "must not be null"))?;
    let paths: Vec<Value> =
        row::rows(body, "authPathDTOList").cloned().map(Value::Object).collect();
    change_app(admin, id, move |app| {
        app.insert("pathDataList".to_owned(), paths.clone().into());
    })
    .await
}

async fn change_app(
    admin: &ShenyuAdmin,
    id: String,
    change: impl Fn(&mut Row) + Send + 'static,
) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let stored = find(draft, Table::AppAuth, &id);
            let (key, app) = stored.ok_or_else(|| Refusal::not_found("app key not existed"))?;
            let mut app = (*app).clone();
            change(&mut app);
            app.insert("dateUpdated".to_owned(), draft.now.clone().into());
            draft.put(Table::AppAuth, &key, app);
            success("", Value::Null)
        })
        .await
}
