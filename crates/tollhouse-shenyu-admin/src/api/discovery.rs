//! Nodes of selectors: how they were discovered, and those that calls write directly. External
//! registries are not followed; a call that asks for one is refused.

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::Kind;

use super::objects::{find, ids};
use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::conditions;
use crate::draft::Draft;
use crate::limits::UPSTREAMS_MAX;
use crate::local_discovery::{LOCAL, check_source};
use crate::probe::AWAY_SINCE;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::namespace;

/// Answers the calls about nodes. Returns `None` for every other path.
pub(super) async fn answer(admin: &ShenyuAdmin, segments: &[&str], call: &Call) -> Option<Outcome> {
    let (first, rest) = segments.split_first()?;
    Some(match (&call.method, *first, rest) {
        (&Method::GET, "discovery", ["typeEnums"]) => success("success", json!([LOCAL])),
        (&Method::GET, "discovery", []) => find_discovery(admin, call),
        (&Method::POST, "discovery-upstream", [] | ["batch"]) => {
            put_upstreams(admin, call, None, PutMode::Add).await
        }
        (&Method::PUT, "discovery-upstream", [handler]) => {
            put_upstreams(admin, call, Some((*handler).to_owned()), PutMode::Replace).await
        }
        (&Method::DELETE, "discovery-upstream", ["batch"]) => remove_upstreams(admin, call).await,
        (_, "discovery-upstream", _) => Err(no_such_path()),
        (&Method::POST, "proxy-selector", [] | ["addProxySelector"]) => {
            put_proxy_selector(admin, call, None).await
        }
        (&Method::PUT, "proxy-selector", ["fetch", _]) => {
            // The nodes are stored here already. Gateways are sent them once more.
            admin.book.refresh(&[Kind::ProxySelector, Kind::DiscoveryUpstream]);
            success("", Value::Null)
        }
        (&Method::PUT, "proxy-selector", [id]) => {
            put_proxy_selector(admin, call, Some((*id).to_owned())).await
        }
        (&Method::POST, "proxy-selector", ["binding"]) => bind(admin, call).await,
        _ => return None,
    })
}

/// Returns the discovery settings of a plugin at one level as a single object, or `null`.
fn find_discovery(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let resource = Resource::find("discovery").ok_or_else(no_such_path)?;
    let tables = admin.book.read();
    let mut rows = tables.rows(Table::Discovery);
    let found = rows.find(|(_, row)| resource.is_meant(row, &|name| call.argument(name)));
    success("success", found.map(|(_, row)| resource.view_row(&tables, row)))
}

/// Stores a TCP port whose connections are proxied, together with its nodes if the body lists them.
async fn put_proxy_selector(admin: &ShenyuAdmin, call: &Call, id: Option<String>) -> Outcome {
    let body = call.object()?.clone();
    let (message, id) = match id.or_else(|| row::filled(&body, "id")) {
        Some(id) => ("update success", id),
        None => ("create success", clock::new_id()),
    };
    let list = body.get("discoveryUpstreams").map(upstreams).transpose()?;
    admin
        .book
        .write(move |draft| {
            let resource = Resource::find("proxy-selector").ok_or_else(no_such_path)?;
            let before = find(draft, Table::ProxySelector, &id);
            if before.is_none() && message == "update success" {
                return Err(Refusal::not_found(resource.words.missing));
            }
            let before = before.map(|(_, before)| before);
            let made = resource.make_row(draft, &id, &body, before.as_deref())?;
            draft.put(Table::ProxySelector, &id, made);
            if let Some(list) = &list {
                write_upstreams(draft, &id, list, PutMode::Replace)?;
            }
            success(message, Value::Null)
        })
        .await
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PutMode {
    Add,
    Replace,
}

/// Returns the upstreams of a body, which is either a list or a single object.
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

/// Stores upstreams of a discovery handler. Here the handler's id is the id of its selector.
async fn put_upstreams(
    admin: &ShenyuAdmin,
    call: &Call,
    handler: Option<String>,
    put: PutMode,
) -> Outcome {
    let list = upstreams(&call.body)?;
    let named = list.first().and_then(|it| {
        row::filled(it, "discoveryHandlerId").or_else(|| row::filled(it, "selectorId"))
    });
    let handler = handler
        .or(named)
        .ok_or_else(|| Refusal::invalid("discoveryHandlerId", "must not be null"))?;
    let message = match put {
        PutMode::Add => "create success",
        PutMode::Replace => "",
    };
    admin
        .book
        .write(move |draft| {
            write_upstreams(draft, &handler, &list, put)?;
            success(message, Value::Null)
        })
        .await
}

/// Stores the nodes of a selector or of a proxied port.
fn write_upstreams(
    draft: &mut Draft<'_>,
    selector: &str,
    list: &[Row],
    put: PutMode,
) -> Result<(), Refusal> {
    let row =
        draft.get(Table::Selector, selector).or_else(|| draft.get(Table::ProxySelector, selector));
    let row = row.ok_or_else(|| Refusal::not_found("selector is not existed"))?;
    let before = draft.get(Table::DiscoveryUpstream, selector);
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
        PutMode::Replace => Vec::new(),
        PutMode::Add => {
            made.get("upstreamDataList").and_then(Value::as_array).cloned().unwrap_or_default()
        }
    };
    for upstream in list {
        let mut upstream = upstream.clone();
        upstream.entry("id").or_insert_with(|| clock::new_id().into());
        if row::number(&upstream, "status").unwrap_or(0) == 0 {
            upstream.remove(AWAY_SINCE);
        }
        upstream.insert("discoveryHandlerId".to_owned(), selector.into());
        // The address identifies a node, so a node that registers again replaces its old entry.
        all.retain(|known| known.get("url") != upstream.get("url"));
        all.push(Value::Object(upstream));
    }
    if all.len() > UPSTREAMS_MAX {
        return Err(Refusal::error(format!("a selector has at most {UPSTREAMS_MAX} upstreams")));
    }
    made.insert("upstreamDataList".to_owned(), all.into());
    draft.put(Table::DiscoveryUpstream, selector, made);
    Ok(())
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
            success("delete success", Value::Null)
        })
        .await
}

/// Replaces the nodes of a selector with those of the body.
async fn bind(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let body = call.object()?;
    check_source(body.get("discovery").and_then(Value::as_object))?;
    let selector = row::filled(body, "selectorId")
        .ok_or_else(|| Refusal::invalid("selectorId", "must not be null"))?;
    let list = body.get("discoveryUpstreams").map(upstreams).transpose()?.unwrap_or_default();
    admin
        .book
        .write(move |draft| {
            write_upstreams(draft, &selector, &list, PutMode::Replace)?;
            success("create success", Value::Null)
        })
        .await
}
