//! What all resources have: lists, single objects, and changes of many.

use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};

use super::{Call, no_such_path};
use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::clock;
use crate::draft::Draft;
use crate::page::PageRequest;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;

/// Answers a call to a resource; `rest` is its path below the resource.
pub(super) async fn answer(
    admin: &ShenyuAdmin,
    resource: &'static Resource,
    rest: &[&str],
    call: &Call,
) -> Outcome {
    match (&call.method, rest) {
        (&Method::GET, [] | ["findPageByQuery" | "queryList"]) => Ok(list(admin, resource, call)),
        (&Method::POST, ["list", "search"]) => Ok(list(admin, resource, call)),
        (&Method::GET, ["all" | "findAll" | "list" | "listByNamespace"]) => {
            all(admin, resource, call)
        }
        (&Method::GET, ["detail" | "detailPath"]) => {
            let id =
                call.argument("id").ok_or_else(|| Refusal::invalid("id", "must not be null"))?;
            one(admin, resource, &id)
        }
        (&Method::GET, [id]) => one(admin, resource, id),
        (&Method::POST, ["insertOrUpdate" | "createOrUpdate" | "updateDetail"]) => {
            let body = call.object()?;
            match row::filled(body, "id") {
                Some(id) => update(admin, resource, id, body.clone()).await,
                None => create(admin, resource, body.clone()).await,
            }
        }
        (&Method::POST, [] | ["addProxySelector"]) => {
            create(admin, resource, call.object()?.clone()).await
        }
        (&Method::PUT, [id]) => {
            update(admin, resource, (*id).to_owned(), call.object()?.clone()).await
        }
        (&Method::DELETE, ["batch" | "batchDeleted"]) | (&Method::POST, ["batchDelete"]) => {
            remove(admin, resource, ids(&call.body)?).await
        }
        (&Method::DELETE, [id]) => remove(admin, resource, vec![(*id).to_owned()]).await,
        (&Method::POST, ["batchEnabled" | "enabled" | "enabledByNamespace"]) => {
            switch(admin, resource, call.object()?, "enabled").await
        }
        (&Method::POST, ["batchOpened"]) => switch(admin, resource, call.object()?, "open").await,
        _ => Err(no_such_path()),
    }
}

/// The ids of a body: a list (2.6), or `ids` of an object (2.7).
pub(super) fn ids(body: &Value) -> Result<Vec<String>, Refusal> {
    let ids = row::texts(body.get("ids").unwrap_or(body));
    if ids.is_empty() { Err(Refusal::invalid("ids", "must not be empty")) } else { Ok(ids) }
}

/// Rows in the order of the interface: by `sort`, then by age.
fn rows(
    admin: &ShenyuAdmin,
    resource: &Resource,
    argument: &dyn Fn(&str) -> Option<String>,
) -> Vec<Arc<Row>> {
    let tables = admin.book.read();
    let rows = tables.rows(resource.table).map(|(_, row)| row);
    let mut rows: Vec<Arc<Row>> =
        rows.filter(|row| resource.is_meant(row, argument)).cloned().collect();
    rows.sort_by_key(|row| row::number(row, "sort").unwrap_or(i64::MAX));
    rows
}

fn list(admin: &ShenyuAdmin, resource: &Resource, call: &Call) -> crate::answer::Success {
    let condition = call.body.get("condition").and_then(Value::as_object);
    let argument = |name: &str| {
        let narrowed = condition.and_then(|condition| row::filled(condition, name));
        // Searches name what they look for `keyword`.
        let keyword = condition.filter(|_| matches!(name, "name" | "path" | "appKey"));
        narrowed.or_else(|| row::filled(keyword?, "keyword")).or_else(|| call.argument(name))
    };
    let number = |names: [&str; 2]| names.iter().find_map(|name| call.argument(name)?.parse().ok());
    let page = PageRequest::new(number(["currentPage", "pageNum"]), number(["pageSize", "size"]));
    let rows = rows(admin, resource, &argument);
    let tables = admin.book.read();
    let data = page.cut(rows, |row| resource.view_row(&tables, &row));
    crate::answer::Success { message: "query success", data }
}

fn all(admin: &ShenyuAdmin, resource: &Resource, call: &Call) -> Outcome {
    let rows = rows(admin, resource, &|name| call.argument(name));
    let tables = admin.book.read();
    let data: Vec<Value> = rows.iter().map(|row| resource.view_row(&tables, row)).collect();
    success("query success", data)
}

fn one(admin: &ShenyuAdmin, resource: &Resource, id: &str) -> Outcome {
    let tables = admin.book.read();
    let key =
        if resource.table == Table::AppAuth { app_key(&tables, id) } else { Some(id.to_owned()) };
    let stored = key.and_then(|key| tables.get(resource.table, &key));
    let stored = stored.ok_or_else(missing)?;
    success("detail success", resource.view_row(&tables, &stored.row))
}

/// The key of an application, which lies in the store by its `appKey`, from either.
fn app_key(tables: &crate::tables::Tables, id: &str) -> Option<String> {
    let mut rows = tables.rows(Table::AppAuth);
    rows.find(|(key, row)| *key == id || row::text(row, "id").as_deref() == Some(id))
        .map(|(key, _)| key.to_owned())
}

fn missing() -> Refusal {
    Refusal::not_found("there is no such object")
}

async fn create(admin: &ShenyuAdmin, resource: &'static Resource, body: Row) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let id = row::filled(&body, "id").unwrap_or_else(clock::new_id);
            if let Some((key, _)) = find(draft, resource.table, &id) {
                return write(draft, resource, &key, &body, "update success");
            }
            let made = resource.make_row(draft, &id, &body, None)?;
            let key = store_id(resource.table, &id, &made);
            draft.put(resource.table, &key, made);
            success("create success", 1)
        })
        .await
}

/// Under which id a row lies in the store.
pub(super) fn store_id(table: Table, id: &str, row: &Row) -> String {
    if table == Table::AppAuth {
        row::text(row, "appKey").unwrap_or_default()
    } else {
        id.to_owned()
    }
}

/// A row by its id, with the id under which it lies.
pub(super) fn find(draft: &Draft<'_>, table: Table, id: &str) -> Option<(String, Arc<Row>)> {
    if let Some(row) = draft.get(table, id) {
        return Some((id.to_owned(), row));
    }
    if table != Table::AppAuth {
        return None;
    }
    let is_meant = |row: &Row| row::text(row, "id").as_deref() == Some(id);
    draft.find_all(table, is_meant).into_iter().next()
}

fn write(
    draft: &mut Draft<'_>,
    resource: &Resource,
    key: &str,
    body: &Row,
    message: &'static str,
) -> Outcome {
    let before = draft.get(resource.table, key).ok_or_else(missing)?;
    let id = row::text(&before, "id").unwrap_or_else(|| key.to_owned());
    let made = resource.make_row(draft, &id, body, Some(&before))?;
    let new_key = store_id(resource.table, &id, &made);
    if new_key != key {
        draft.delete(resource.table, key);
    }
    draft.put(resource.table, &new_key, made);
    success(message, 1)
}

async fn update(
    admin: &ShenyuAdmin,
    resource: &'static Resource,
    id: String,
    body: Row,
) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let (key, _) = find(draft, resource.table, &id).ok_or_else(missing)?;
            write(draft, resource, &key, &body, "update success")
        })
        .await
}

async fn remove(admin: &ShenyuAdmin, resource: &'static Resource, ids: Vec<String>) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let mut count = 0;
            for id in &ids {
                if let Some((key, row)) = find(draft, resource.table, id) {
                    check_removal(resource.table, &key)?;
                    remove_with_dependents(draft, resource.table, &key, &row);
                    count += 1;
                }
            }
            if count == 0 { Err(missing()) } else { success("delete success", count) }
        })
        .await
}

fn check_removal(table: Table, key: &str) -> Result<(), Refusal> {
    let is_kept = match table {
        Table::User => key == crate::seed::FIRST_USER,
        Table::Namespace => key == tollhouse_shenyu::model::DEFAULT_NAMESPACE,
        Table::Role => key == crate::seed::SUPER_ROLE,
        _ => false,
    };
    if is_kept { Err(Refusal::error("what the admin began with is not deleted")) } else { Ok(()) }
}

/// Takes out a row and what cannot be without it.
pub(crate) fn remove_with_dependents(draft: &mut Draft<'_>, table: Table, key: &str, row: &Row) {
    draft.delete(table, key);
    let belongs = |member: &'static str, value: String| {
        move |row: &Row| row::text(row, member).as_deref() == Some(value.as_str())
    };
    match table {
        Table::Plugin => {
            for (id, selector) in
                draft.find_all(Table::Selector, belongs("pluginId", key.to_owned()))
            {
                remove_with_dependents(draft, Table::Selector, &id, &selector);
            }
            for (id, _) in draft.find_all(Table::PluginHandle, belongs("pluginId", key.to_owned()))
            {
                draft.delete(Table::PluginHandle, &id);
            }
        }
        Table::Selector => {
            for (id, _) in draft.find_all(Table::Rule, belongs("selectorId", key.to_owned())) {
                draft.delete(Table::Rule, &id);
            }
            draft.delete(Table::DiscoveryUpstream, key);
        }
        Table::Namespace => {
            let namespace = row::text(row, "namespaceId").unwrap_or_else(|| key.to_owned());
            for table in Table::ALL.into_iter().filter(|table| table.kind().is_some()) {
                for (id, _) in draft.find_all(table, belongs("namespaceId", namespace.clone())) {
                    draft.delete(table, &id);
                }
            }
        }
        _ => {}
    }
}

async fn switch(
    admin: &ShenyuAdmin,
    resource: &'static Resource,
    body: &Row,
    member: &'static str,
) -> Outcome {
    let ids = ids(&json!(body))?;
    let flag = row::flag(body, "enabled").or_else(|| row::flag(body, member));
    let flag = flag.ok_or_else(|| Refusal::invalid("enabled", "must not be null"))?;
    admin
        .book
        .write(move |draft| {
            for id in &ids {
                let (key, row) = find(draft, resource.table, id).ok_or_else(missing)?;
                let mut row = (*row).clone();
                row.insert(member.to_owned(), flag.into());
                row.insert("dateUpdated".to_owned(), draft.now.clone().into());
                draft.put(resource.table, &key, row);
            }
            success("enable success", Value::Null)
        })
        .await
}
