//! Calls that only one resource has.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::Kind;
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;

use super::objects::{find, ids};
use super::{Call, no_such_path};
use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::clock;
use crate::conditions;
use crate::limits::UPSTREAMS_MAX;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::namespace;

/// Answers what only one resource has; `None` for everything else.
pub(super) async fn answer(admin: &ShenyuAdmin, segments: &[&str], call: &Call) -> Option<Outcome> {
    let (first, rest) = segments.split_first()?;
    match (&call.method, *first, rest) {
        (&Method::GET, "platform", ["enum"]) => Some(success("query success", enumerations())),
        (_, "plugin" | "plugin-template" | "namespace-plugin" | "appAuth" | "meta-data", rest)
            if refreshed(first, rest).is_some() =>
        {
            let kinds = refreshed(first, rest)?;
            admin.book.refresh(kinds);
            Some(success("sync success", Value::Null))
        }
        (&Method::PUT, "plugin" | "plugin-template", ["createPluginResource", _]) => {
            Some(success("create success", Value::Null))
        }
        (&Method::GET, "plugin" | "namespace-plugin", ["snapshot", "active"]) => {
            Some(active(admin, call))
        }
        (&Method::GET, "namespace-plugin", ["all", namespace]) => Some(plugins(admin, namespace)),
        (&Method::POST, "namespace-plugin", [namespace, plugin]) => {
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
        (&Method::GET, "discovery", ["typeEnums"]) => {
            Some(success("query success", json!(["local"])))
        }
        (&Method::POST, "discovery-upstream", []) => {
            Some(put_upstreams(admin, call, None, Put::Add).await)
        }
        (&Method::POST, "discovery-upstream", ["batch"]) => {
            Some(put_upstreams(admin, call, None, Put::Add).await)
        }
        (&Method::PUT, "discovery-upstream", [handler]) => {
            Some(put_upstreams(admin, call, Some((*handler).to_owned()), Put::Replace).await)
        }
        (&Method::DELETE, "discovery-upstream", ["batch"]) => {
            Some(remove_upstreams(admin, call).await)
        }
        (&Method::POST, "proxy-selector", ["binding"]) => Some(bind(admin, call).await),
        (_, "discovery-upstream" | "platform", _) => Some(Err(no_such_path())),
        _ => None,
    }
}

/// What a call that synchronises sends anew.
fn refreshed(first: &str, rest: &[&str]) -> Option<&'static [Kind]> {
    match (first, rest) {
        ("appAuth", ["syncData"]) => Some(&[Kind::AppAuth]),
        ("meta-data", ["syncData"]) => Some(&[Kind::Metadata]),
        (_, ["syncPluginAll"] | ["syncPluginData"] | ["syncPluginData", _]) => {
            Some(&[Kind::Plugin, Kind::Selector, Kind::Rule, Kind::DiscoveryUpstream])
        }
        _ => None,
    }
}

fn enumerations() -> Value {
    let values = |known: &[&str]| -> Vec<Value> {
        known.iter().map(|name| json!({"code": name, "name": name, "support": true})).collect()
    };
    json!({
        "operatorEnums": values(crate::seed::OPERATORS),
        "paramTypeEnums": values(crate::seed::PARAMETER_TYPES),
        "matchModeEnums": [{"code": 0, "name": "and", "support": true}, {"code": 1, "name": "or", "support": true}],
        "selectorTypeEnums": [{"code": 0, "name": "full flow", "support": true}, {"code": 1, "name": "custom flow", "support": true}],
    })
}

fn plugins(admin: &ShenyuAdmin, wanted: &str) -> Outcome {
    listed_in(admin, "namespace-plugin", |row| namespace(row) == wanted)
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
        .filter(|(_, row)| namespace(row) == wanted && row::flag(row, "enabled") == Some(true));
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

/// Makes a plugin of the default namespace one of another.
async fn instantiate(admin: &ShenyuAdmin, namespace: &str, plugin: &str) -> Outcome {
    let (wanted, plugin) = (namespace.to_owned(), plugin.to_owned());
    admin
        .book
        .write(move |draft| {
            let template = draft.get(Table::Plugin, &plugin);
            let template = template.ok_or_else(|| Refusal::not_found("there is no such plugin"))?;
            let resource = Resource::find("namespace-plugin").ok_or_else(no_such_path)?;
            let mut body = (*template).clone();
            body.insert("namespaceId".to_owned(), wanted.clone().into());
            body.insert("pluginId".to_owned(), plugin.clone().into());
            let id = clock::new_id();
            let made = resource.make_row(draft, &id, &body, None)?;
            draft.put(Table::Plugin, &id, made);
            success("create success", id)
        })
        .await
}

/// A new application: its key and secret are made here where the call names none.
async fn apply(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let mut body = call.object()?.clone();
    if row::filled(&body, "appKey").is_none() {
        body.insert("appKey".to_owned(), random_key()?.into());
    }
    body.insert("appSecret".to_owned(), random_key()?.into());
    let name = row::text(&body, "appName");
    let parameter = json!({"appName": name, "appParam": row::text(&body, "appParam")});
    body.insert("authParamList".to_owned(), json!([parameter]));
    let paths = body.get("pathList").map(row::texts).unwrap_or_default();
    let paths: Vec<Value> = paths
        .into_iter()
        .map(|path| json!({"appName": name, "path": path, "enabled": true}))
        .collect();
    body.insert("authPathList".to_owned(), paths.into());
    admin
        .book
        .write(move |draft| {
            let resource = Resource::find("appAuth").ok_or_else(no_such_path)?;
            let key = row::text(&body, "appKey").unwrap_or_default();
            let before = draft.get(Table::AppAuth, &key);
            if before.is_some() {
                return Err(Refusal::error(format!("the appKey `{key}` exists already")));
            }
            let made = resource.make_row(draft, &clock::new_id(), &body, None)?;
            draft.put(Table::AppAuth, &key, made);
            success("create success", Value::Null)
        })
        .await
}

/// 32 hexadecimal digits in upper case.
fn random_key() -> Result<String, Refusal> {
    let mut bytes = [0; 16];
    aws_lc_rs::rand::fill(&mut bytes)
        .map_err(|_| Refusal::error("the system gives no random numbers"))?;
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
            let found = find(draft, Table::AppAuth, &id);
            let (key, app) = found.ok_or_else(|| Refusal::not_found("there is no such object"))?;
            let mut app = (*app).clone();
            change(&mut app);
            app.insert("dateUpdated".to_owned(), draft.now.clone().into());
            draft.put(Table::AppAuth, &key, app);
            success("update success", 1)
        })
        .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Put {
    Add,
    Replace,
}

/// Upstreams of a body: a list, or one object.
fn upstreams(body: &Value) -> Result<Vec<Row>, Refusal> {
    let list = match body {
        Value::Array(list) => list.iter().filter_map(Value::as_object).cloned().collect(),
        Value::Object(one) => vec![one.clone()],
        _ => Vec::new(),
    };
    for upstream in &list {
        if row::filled(upstream, "url").is_none() {
            return Err(Refusal::invalid("url", "must not be null"));
        }
        conditions::json_text(upstream, "props")?;
    }
    Ok(list)
}

/// Writes upstreams of a discovery handler, whose id is here the one of its selector.
async fn put_upstreams(
    admin: &ShenyuAdmin,
    call: &Call,
    handler: Option<String>,
    put: Put,
) -> Outcome {
    let list = upstreams(&call.body)?;
    let named = list.first().and_then(|it| {
        row::filled(it, "discoveryHandlerId").or_else(|| row::filled(it, "selectorId"))
    });
    let handler = handler
        .or(named)
        .ok_or_else(|| Refusal::invalid("discoveryHandlerId", "must not be null"))?;
    write_upstreams(admin, handler, list, put, "update success").await
}

async fn write_upstreams(
    admin: &ShenyuAdmin,
    selector: String,
    list: Vec<Row>,
    put: Put,
    message: &'static str,
) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let row = draft
                .get(Table::Selector, &selector)
                .or_else(|| draft.get(Table::ProxySelector, &selector));
            let row = row.ok_or_else(|| Refusal::not_found("there is no such selector"))?;
            let before = draft.get(Table::DiscoveryUpstream, &selector);
            let mut made = before.map(|before| (*before).clone()).unwrap_or_default();
            for (member, value) in [
                ("selectorId", json!(selector)),
                ("discoveryHandlerId", json!(selector)),
                ("pluginName", json!(row::text(&row, "pluginName"))),
                ("selectorName", json!(row::text(&row, "name"))),
                ("namespaceId", json!(namespace(&row))),
            ] {
                made.insert(member.to_owned(), value);
            }
            let mut all: Vec<Value> = match put {
                Put::Replace => Vec::new(),
                Put::Add => made
                    .get("upstreamDataList")
                    .and_then(Value::as_array)
                    .cloned()
                    .unwrap_or_default(),
            };
            for upstream in &list {
                let mut upstream = upstream.clone();
                upstream.entry("id").or_insert_with(|| clock::new_id().into());
                upstream.insert("discoveryHandlerId".to_owned(), selector.clone().into());
                all.retain(|known| known.get("url") != upstream.get("url"));
                all.push(Value::Object(upstream));
            }
            if all.len() > UPSTREAMS_MAX {
                return Err(Refusal::error(format!(
                    "a selector has at most {UPSTREAMS_MAX} upstreams"
                )));
            }
            made.insert("upstreamDataList".to_owned(), all.into());
            draft.put(Table::DiscoveryUpstream, &selector, made);
            success(message, 1)
        })
        .await
}

async fn remove_upstreams(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let ids = ids(&call.body)?;
    admin
        .book
        .write(move |draft| {
            let is_meant = |upstream: &Value| {
                let id = upstream.get("id").map(row::texts).unwrap_or_default();
                id.iter().any(|id| ids.contains(id))
            };
            let list = |row: &Row| {
                row.get("upstreamDataList").and_then(Value::as_array).cloned().unwrap_or_default()
            };
            for (id, row) in
                draft.find_all(Table::DiscoveryUpstream, |row| list(row).iter().any(is_meant))
            {
                let mut left = list(&row);
                left.retain(|upstream| !is_meant(upstream));
                let mut row = (*row).clone();
                row.insert("upstreamDataList".to_owned(), left.into());
                draft.put(Table::DiscoveryUpstream, &id, row);
            }
            success("delete success", ids.len())
        })
        .await
}

async fn bind(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let body = call.object()?;
    let selector = row::filled(body, "selectorId")
        .ok_or_else(|| Refusal::invalid("selectorId", "must not be null"))?;
    let list = body.get("discoveryUpstreams").map(upstreams).transpose()?.unwrap_or_default();
    write_upstreams(admin, selector, list, Put::Replace, "create success").await
}
