//! Calls that all resources share: lists, single objects, and changes of many.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;

use super::special;
use crate::admin::{Session, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::draft::Draft;
use crate::page::{PageRequest, Shape};
use crate::resource::Resource;
use crate::rights;
use crate::row::{self, Row};
use crate::seed::plugin_of_relation;
use crate::table::Table;

/// Operation of a call on a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Action<'a> {
    Page,
    /// As [`Self::Page`], in the response format of search calls.
    Search,
    All,
    One(Option<&'a str>),
    Create,
    Update(&'a str),
    CreateOrUpdate,
    Remove(Option<&'a str>),
    Switch(&'static str),
}

/// Returns the operation of a method at a path below a resource. Returns `None` if the path does
/// not support the method.
fn find_action<'a>(method: &Method, rest: &[&'a str]) -> Option<Action<'a>> {
    Some(match (method, rest) {
        (&Method::GET, [] | ["findPageByQuery" | "queryList"]) => Action::Page,
        (&Method::POST, ["list", "search"]) => Action::Search,
        (&Method::POST, ["list", "search", "adaptor"]) => Action::Page,
        (&Method::GET, ["all" | "findAll" | "list" | "listByNamespace" | "getAllRoles"]) => {
            Action::All
        }
        (&Method::GET, ["detail"]) => Action::One(None),
        (&Method::GET, [id]) if !is_verb(id) => Action::One(Some(id)),
        (&Method::POST, ["insertOrUpdate" | "createOrUpdate" | "updateDetail"]) => {
            Action::CreateOrUpdate
        }
        (&Method::POST, []) => Action::Create,
        (&Method::PUT, [id]) if !is_verb(id) => Action::Update(id),
        (&Method::DELETE, ["batch" | "batchDeleted"])
        | (&Method::POST, ["batchDelete" | "batchDeleted"]) => Action::Remove(None),
        (&Method::DELETE, [id]) if !is_verb(id) => Action::Remove(Some(id)),
        (&Method::POST, ["batchEnabled" | "enabled" | "enabledByNamespace"]) => {
            Action::Switch("enabled")
        }
        (&Method::POST, ["batchOpened"]) => Action::Switch("open"),
        _ => return None,
    })
}

/// Whether a segment names an operation, and therefore is not an id.
fn is_verb(segment: &str) -> bool {
    const VERBS: &[&str] = &[
        "batch",
        "batchDelete",
        "batchDeleted",
        "batchEnabled",
        "batchOpened",
        "createOrUpdate",
        "enabled",
        "enabledByNamespace",
        "insertOrUpdate",
        "updateDetail",
    ];
    VERBS.contains(&segment)
}

/// Answers a call to a resource; `rest` is its path below the resource.
pub(super) async fn answer(
    session: Session<'_>,
    resource: &'static Resource,
    rest: &[&str],
    call: &Call,
) -> Outcome {
    let admin = session.admin;
    let Some(action) = find_action(&call.method, rest) else {
        let methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE];
        let supported = methods.iter().filter(|method| find_action(method, rest).is_some());
        let supported: Vec<&str> = supported.map(Method::as_str).collect();
        // A path that no method supports does not exist. If another method supports it, the refusal
        // lists the methods.
        if supported.is_empty() {
            return Err(no_such_path());
        }
        return Err(Refusal::method(call.method.as_str(), &supported));
    };
    match action {
        Action::Page => Ok(list(session, resource, call, Shape::Pager)),
        Action::Search => Ok(list(session, resource, call, Shape::Search)),
        Action::All => all(session, resource, call),
        Action::One(id) => {
            let id = id.map(str::to_owned).or_else(|| call.argument("id"));
            let id = id.ok_or_else(|| Refusal::missing(&["id"]))?;
            one(session, resource, &id)
        }
        Action::Create => create(session, resource, call.object()?.clone()).await,
        Action::Update(id) => update(admin, resource, id.to_owned(), call.object()?.clone()).await,
        Action::CreateOrUpdate => {
            let body = call.object()?.clone();
            match row::filled(&body, "id") {
                Some(id) => update(admin, resource, id, body).await,
                None => create(session, resource, body).await,
            }
        }
        Action::Remove(Some(id)) => remove(admin, resource, vec![id.to_owned()]).await,
        Action::Remove(None) => remove(admin, resource, ids(&call.body)?).await,
        Action::Switch(member) => switch(admin, resource, call.object()?, member).await,
    }
}

/// Returns the ids of a body: a list (2.6), or the member `ids` of an object (2.7).
pub(super) fn ids(body: &Value) -> Result<Vec<String>, Refusal> {
    let ids = row::texts(body.get("ids").unwrap_or(body));
    if ids.is_empty() { Err(Refusal::invalid("ids", "must not be empty")) } else { Ok(ids) }
}

/// Returns the matching rows that the caller may see, ordered by `sort`, then by age with the
/// oldest first.
fn rows(
    Session { admin, caller }: Session<'_>,
    resource: &Resource,
    argument: &dyn Fn(&str) -> Option<String>,
) -> Vec<Arc<Row>> {
    let tables = admin.book.read();
    let rows = tables.rows(resource.table);
    let rows = rows.filter(|(id, _)| caller.rights.may_see(resource.table, id)).map(|(_, row)| row);
    let mut rows: Vec<Arc<Row>> =
        rows.filter(|row| resource.is_meant(row, argument)).cloned().collect();
    rows.sort_by_key(|row| row::number(row, "sort").unwrap_or(i64::MAX));
    rows
}

fn list(
    session: Session<'_>,
    resource: &Resource,
    call: &Call,
    shape: Shape,
) -> crate::answer::Success {
    let condition = call.body.get("condition").and_then(Value::as_object);
    let argument = |name: &str| {
        let narrowed = condition.and_then(|condition| row::filled(condition, name));
        // Search calls put the name, path or key that they look for into `keyword`.
        let keyword = condition.filter(|_| matches!(name, "name" | "path" | "appKey"));
        narrowed.or_else(|| row::filled(keyword?, "keyword")).or_else(|| call.argument(name))
    };
    let number = |names: [&str; 2]| names.iter().find_map(|name| call.argument(name)?.parse().ok());
    let page = PageRequest::new(number(["currentPage", "pageNum"]), number(["pageSize", "size"]));
    let mut rows = rows(session, resource, &argument);
    if let Some(condition) = condition {
        rows.retain(|row| is_searched(row, condition));
    }
    let tables = session.admin.book.read();
    let data = page.shaped(shape, rows, |row| resource.view_row(&tables, &row));
    crate::answer::Success { message: "query success", data, warnings: Default::default() }
}

/// Whether a row matches the conditions that only search calls have: enabled or not, owned by given
/// plugins or selectors, and not excluded by id.
fn is_searched(row: &Row, condition: &Row) -> bool {
    let wanted = |name: &str| condition.get(name).map(row::texts).filter(|ids| !ids.is_empty());
    let is_in = |member: &str, ids: &[String]| {
        row::text(row, member).is_some_and(|value| ids.contains(&value))
    };
    let owners = [("plugins", "pluginId"), ("plugin", "pluginId"), ("selectors", "selectorId")];
    let is_switched = match row::flag(condition, "switchStatus") {
        Some(wanted) => row::flag(row, "enabled").is_none_or(|enabled| enabled == wanted),
        None => true,
    };
    is_switched
        && owners.iter().all(|(name, member)| wanted(name).is_none_or(|ids| is_in(member, &ids)))
        && !wanted("excluded").is_some_and(|ids| is_in("id", &ids))
}

fn all(session: Session<'_>, resource: &Resource, call: &Call) -> Outcome {
    let rows = rows(session, resource, &|name| call.argument(name));
    let tables = session.admin.book.read();
    let data: Vec<Value> = rows.iter().map(|row| resource.view_row(&tables, row)).collect();
    success("query success", data)
}

fn one(Session { admin, caller }: Session<'_>, resource: &Resource, id: &str) -> Outcome {
    let tables = admin.book.read();
    let missing = || Refusal::not_existed(resource.words.missing);
    if !caller.rights.may_see(resource.table, id) {
        return Err(missing());
    }
    let relation = plugin_of_relation(id).filter(|_| resource.table == Table::Plugin);
    let stored = tables.get(resource.table, relation.unwrap_or(id)).map(|stored| &stored.row);
    let second = second_id(resource.table);
    let is_meant =
        |row: &Row| second.is_some_and(|member| row::text(row, member).as_deref() == Some(id));
    let mut rows = tables.rows(resource.table).map(|(_, row)| row);
    let row = stored.or_else(|| rows.find(|row| is_meant(row))).ok_or_else(missing)?;
    success("detail success", resource.view_row(&tables, row))
}

/// Returns the member that holds a second id of a row, for tables whose key in the store is another
/// member.
const fn second_id(table: Table) -> Option<&'static str> {
    match table {
        Table::AppAuth => Some("id"),
        Table::Namespace => Some("namespaceId"),
        _ => None,
    }
}

async fn create(
    Session { admin, caller }: Session<'_>,
    resource: &'static Resource,
    body: Row,
) -> Outcome {
    // A user restricted to some rows is permitted to see the rows that the user creates.
    let owner = if caller.rights.is_restricted() { row::text(&caller.user, "id") } else { None };
    admin
        .book
        .write(move |draft| {
            let id = row::filled(&body, "id").unwrap_or_else(clock::new_id);
            if let Some((key, _)) = find(draft, resource.table, &id) {
                return write(draft, resource, &key, &body);
            }
            let made = resource.make_row(draft, &id, &body, None)?;
            let key = store_id(resource.table, &id, &made);
            if resource.table == Table::Namespace {
                fill_namespace(draft, &crate::tables::namespace(&made))?;
            }
            if let Some(owner) = &owner {
                rights::permit(draft, owner, resource.table, &id);
            }
            let data = resource.report.data(Some(&id), || Value::Object(made.clone()));
            draft.put(resource.table, &key, made);
            success(resource.words.created, data)
        })
        .await
}

/// Copies the plugins of the default namespace, with their settings, into a new one.
fn fill_namespace(draft: &mut Draft<'_>, namespace: &str) -> Result<(), Refusal> {
    let is_template = |row: &Row| crate::tables::namespace(row) == DEFAULT_NAMESPACE;
    for (_, template) in draft.find_all(Table::Plugin, is_template) {
        special::instantiate_plugin(draft, namespace, &template)?;
    }
    Ok(())
}

/// Returns the key of a row in the store: the app key for applications, the id for all others.
pub(super) fn store_id(table: Table, id: &str, row: &Row) -> String {
    if table == Table::AppAuth {
        row::text(row, "appKey").unwrap_or_default()
    } else {
        id.to_owned()
    }
}

/// Finds a row by either of its ids. Returns it with its key in the store.
pub(super) fn find(draft: &Draft<'_>, table: Table, id: &str) -> Option<(String, Arc<Row>)> {
    if let Some(row) = draft.get(table, id) {
        return Some((id.to_owned(), row));
    }
    if table == Table::Plugin
        && let Some(id) = plugin_of_relation(id)
    {
        return draft.get(table, id).map(|row| (id.to_owned(), row));
    }
    let member = second_id(table)?;
    let is_meant = |row: &Row| row::text(row, member).as_deref() == Some(id);
    draft.find_all(table, is_meant).into_iter().next()
}

fn write(draft: &mut Draft<'_>, resource: &Resource, key: &str, body: &Row) -> Outcome {
    let missing = || Refusal::not_existed(resource.words.missing);
    let before = draft.get(resource.table, key).ok_or_else(missing)?;
    let id = row::text(&before, "id").unwrap_or_else(|| key.to_owned());
    let made = resource.make_row(draft, &id, body, Some(&before))?;
    let new_key = store_id(resource.table, &id, &made);
    if new_key != key {
        draft.delete(resource.table, key);
    }
    let data = resource.report.data(None, || Value::Object(made.clone()));
    draft.put(resource.table, &new_key, made);
    success(resource.words.updated, data)
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
            let missing = || Refusal::not_existed(resource.words.missing);
            let (key, _) = find(draft, resource.table, &id).ok_or_else(missing)?;
            write(draft, resource, &key, &body)
        })
        .await
}

async fn remove(admin: &ShenyuAdmin, resource: &'static Resource, ids: Vec<String>) -> Outcome {
    admin
        .book
        .write(move |draft| {
            let rows: BTreeMap<String, Arc<Row>> =
                ids.iter().filter_map(|id| find(draft, resource.table, id)).collect();
            if rows.is_empty() {
                return Err(Refusal::not_existed(resource.words.missing));
            }
            rows.keys().try_for_each(|key| check_removal(resource.table, key))?;
            let count = rows.len();
            remove_with_dependents(draft, resource.table, &rows);
            let data = match resource.table {
                Table::Plugin | Table::ProxySelector => Value::Null,
                Table::Namespace => "delete success".into(),
                _ => count.into(),
            };
            success(resource.words.deleted, data)
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
    if is_kept { Err(Refusal::error("built-in objects cannot be deleted")) } else { Ok(()) }
}

/// Deletes rows with their dependents. Scans each dependent table once, however many rows are
/// deleted.
fn remove_with_dependents(draft: &mut Draft<'_>, table: Table, rows: &BTreeMap<String, Arc<Row>>) {
    for key in rows.keys() {
        draft.delete(table, key);
    }
    let belongs = |row: &Row, member: &str| {
        row::text(row, member).is_some_and(|owner| rows.contains_key(&owner))
    };
    match table {
        Table::Plugin => {
            let selectors = draft.find_all(Table::Selector, |row| belongs(row, "pluginId"));
            remove_with_dependents(draft, Table::Selector, &selectors.into_iter().collect());
            for (id, _) in draft.find_all(Table::PluginHandle, |row| belongs(row, "pluginId")) {
                draft.delete(Table::PluginHandle, &id);
            }
        }
        Table::Selector => {
            for (id, _) in draft.find_all(Table::Rule, |row| belongs(row, "selectorId")) {
                draft.delete(Table::Rule, &id);
            }
            // Nodes that stayed would be served again by the next selector with that id.
            for key in rows.keys() {
                draft.delete(Table::DiscoveryUpstream, key);
            }
        }
        Table::ProxySelector => {
            for key in rows.keys() {
                draft.delete(Table::DiscoveryUpstream, key);
            }
        }
        Table::Namespace => {
            let named = |(key, row): (&String, &Arc<Row>)| {
                row::text(row, "namespaceId").unwrap_or_else(|| key.clone())
            };
            let gone: BTreeSet<String> = rows.iter().map(named).collect();
            let is_gone = |row: &Row| {
                row::text(row, "namespaceId").is_some_and(|namespace| gone.contains(&namespace))
            };
            for table in Table::ALL.into_iter().filter(|table| table.kind().is_some()) {
                for (id, _) in draft.find_all(table, is_gone) {
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
    let flag = flag.ok_or_else(|| Refusal::missing(&["enabled"]))?;
    let wanted = row::filled(body, "namespaceId");
    admin
        .book
        .write(move |draft| {
            let missing = || Refusal::not_existed(resource.words.missing);
            for id in &ids {
                let instance = match &wanted {
                    Some(wanted) if resource.table == Table::Plugin => {
                        find_instance(draft, id, wanted)
                    }
                    _ => None,
                };
                // Scripts from before ShenYu 2.7 know no namespaces and name only the plugin.
                let stored = instance.or_else(|| find(draft, resource.table, id));
                let (key, row) = stored.ok_or_else(missing)?;
                let mut row = (*row).clone();
                row.insert(member.to_owned(), flag.into());
                row.insert("dateUpdated".to_owned(), draft.now.clone().into());
                draft.put(resource.table, &key, row);
            }
            success("enable success", Value::Null)
        })
        .await
}

/// Finds the copy of a plugin in the namespace `wanted`.
fn find_instance(draft: &Draft<'_>, id: &str, wanted: &str) -> Option<(String, Arc<Row>)> {
    let is_meant = |row: &Row| {
        crate::tables::namespace(row) == wanted && row::text(row, "pluginId").as_deref() == Some(id)
    };
    draft.find_all(Table::Plugin, is_meant).into_iter().next()
}
