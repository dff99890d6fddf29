//! Documents of interfaces: descriptions that services register of their methods, under tags that
//! form a tree, as ShenYu's console shows them. A document describes a route but does not create
//! one.

use axum::http::Method;
use serde_json::{Value, json};
use tollhouse_shenyu::model::DEFAULT_NAMESPACE;

use super::objects::ids;
use crate::admin::ShenyuAdmin;
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::draft::Draft;
use crate::page::PageRequest;
use crate::row::{self, Row};
use crate::table::Table;
use crate::tables::{Name, Tables};

/// Parent id of the topmost tags.
const ROOT: &str = "0";

/// Maximum number of interfaces, and also of tags. Services send one interface for each method.
const DOCUMENTS_MAX: usize = 10_000;

/// States of an interface, by ShenYu's numbers.
const PUBLISHED: i64 = 1;
const OFFLINE: i64 = 2;

/// Members of an interface that are stored.
const API_MEMBERS: &[&str] = &[
    "contextPath",
    "apiPath",
    "httpMethod",
    "consume",
    "produce",
    "version",
    "rpcType",
    "state",
    "ext",
    "apiOwner",
    "apiDesc",
    "apiSource",
    "document",
    "tagIds",
];

const TAG_MEMBERS: &[&str] = &["name", "tagDesc", "parentTagId", "ext"];

/// Answers the calls about documents of interfaces. Returns `None` for every other path.
pub(super) async fn answer(admin: &ShenyuAdmin, segments: &[&str], call: &Call) -> Option<Outcome> {
    let (first, rest) = segments.split_first()?;
    Some(match (&call.method, *first, rest) {
        (&Method::GET, "apidoc", ["getDocMenus"]) => menus(admin),
        (&Method::GET, "tag", []) => tags(admin, call),
        (&Method::GET, "tag", ["queryRootTag"]) => children(admin, ROOT, "query success"),
        (&Method::GET, "tag", ["parentTagId", id]) => children(admin, id, "detail success"),
        (&Method::GET, "tag", ["id", id]) => {
            let tables = admin.book.read();
            let tag = tables.get(Table::Tag, id).ok_or_else(no_tag);
            tag.and_then(|tag| success("detail success", tag_view(&tables, &tag.row)))
        }
        (&Method::GET, "tag", ["name", name]) => {
            let tables = admin.book.read();
            let named = |row: &Row| row::text(row, "name").is_some_and(|it| it.contains(name));
            let list = tables.rows(Table::Tag).filter(|(_, row)| named(row));
            let list: Vec<Value> = list.map(|(_, row)| tag_view(&tables, row)).collect();
            success("detail success", list)
        }
        (&Method::POST, "tag", []) => put(admin, Table::Tag, None, call).await,
        (&Method::PUT, "tag", ["id", id]) => put(admin, Table::Tag, Some(id), call).await,
        (&Method::DELETE, "tag", ["batchDelete"]) => remove(admin, Table::Tag, call).await,
        (&Method::GET, "api", []) => apis(admin, call),
        (&Method::GET, "api", [id]) => {
            let tables = admin.book.read();
            let api = tables.get(Table::Api, id).ok_or_else(no_api);
            api.and_then(|api| success("detail success", api_view(&tables, &api.row)))
        }
        (&Method::POST, "api", []) => put(admin, Table::Api, None, call).await,
        (&Method::PUT, "api", [id]) => put(admin, Table::Api, Some(id), call).await,
        (&Method::DELETE, "api", ["batch"]) => remove(admin, Table::Api, call).await,
        // The console stores the last mock request itself, so none is returned.
        (&Method::GET, "mock", [_]) => success("detail success", Value::Null),
        (_, "tag" | "api", _) => Err(no_such_path()),
        _ => return None,
    })
}

fn no_tag() -> Refusal {
    Refusal::not_existed("tag is not existed")
}

fn no_api() -> Refusal {
    Refusal::not_existed("api is not existed")
}

fn page(call: &Call) -> PageRequest {
    let number = |name: &str| call.argument(name)?.parse().ok();
    PageRequest::new(number("currentPage"), number("pageSize"))
}

fn tag_view(tables: &Tables, row: &Row) -> Value {
    let id = row::text(row, "id");
    let is_below = |row: &Row| row::text(row, "parentTagId") == id;
    let mut view = row.clone();
    let has_children = tables.rows(Table::Tag).any(|(_, row)| is_below(row));
    view.insert("hasChildren".to_owned(), has_children.into());
    Value::Object(view)
}

fn tags(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let tables = admin.book.read();
    let name = call.argument("name").unwrap_or_default();
    let named = |row: &Row| row::text(row, "name").is_some_and(|it| it.contains(&name));
    let list = tables.rows(Table::Tag).map(|(_, row)| row).filter(|row| named(row)).collect();
    success("query success", page(call).cut(list, |row| tag_view(&tables, row)))
}

fn children(admin: &ShenyuAdmin, parent: &str, message: &'static str) -> Outcome {
    let tables = admin.book.read();
    let is_below = |row: &Row| row::text(row, "parentTagId").as_deref() == Some(parent);
    let below = tables.rows(Table::Tag).filter(|(_, row)| is_below(row));
    success(message, below.map(|(_, row)| tag_view(&tables, row)).collect::<Vec<Value>>())
}

fn tag_ids(row: &Row) -> Vec<String> {
    row.get("tagIds").map(row::texts).unwrap_or_default()
}

/// Returns an interface with its tags in full.
fn api_view(tables: &Tables, row: &Row) -> Value {
    let mut view = row.clone();
    view.remove("tagIds");
    let ids = tag_ids(row);
    let tags = ids.iter().filter_map(|id| tables.get(Table::Tag, id));
    let tags: Vec<Value> = tags.map(|tag| tag_view(tables, &tag.row)).collect();
    view.insert("tags".to_owned(), tags.into());
    Value::Object(view)
}

fn apis(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let tables = admin.book.read();
    let argument = |name: &str| call.argument(name);
    let (path, state, tag) = (argument("apiPath"), argument("state"), argument("tagId"));
    let is_meant = |row: &Row| {
        path.as_ref().is_none_or(|path| {
            row::text(row, "apiPath").is_some_and(|known| known.contains(path.as_str()))
        }) && state.as_ref().is_none_or(|state| row::text(row, "state").as_ref() == Some(state))
            && tag.as_ref().is_none_or(|tag| tag_ids(row).contains(tag))
    };
    let list = tables.rows(Table::Api).map(|(_, row)| row).filter(|row| is_meant(row)).collect();
    success("query success", page(call).cut(list, |row| api_view(&tables, row)))
}

/// Returns the menu of the console's test page: gateway addresses, and interfaces grouped by
/// service.
fn menus(admin: &ShenyuAdmin) -> Outcome {
    let tables = admin.book.read();
    let text = |row: &Row, member: &str| row::text(row, member).unwrap_or_default();
    let is_environment =
        |row: &Row| text(row, "type") == "apidocEnv" && row::flag(row, "enabled") != Some(false);
    let environments: Vec<Value> = tables
        .rows(Table::Dict)
        .filter(|(_, row)| is_environment(row))
        .map(|(_, row)| {
            json!({"envLabel": text(row, "dictName"), "addressUrl": text(row, "dictValue"),
                "envDesc": text(row, "desc")})
        })
        .collect();
    let gateway = environments.first().map(|first| first["addressUrl"].clone());
    let mut projects: std::collections::BTreeMap<String, Vec<Value>> = Default::default();
    for (id, row) in tables.rows(Table::Api) {
        let item = json!({"id": id, "label": text(row, "apiPath"), "name": text(row, "apiPath")});
        projects.entry(text(row, "contextPath")).or_default().push(item);
    }
    let project = |(label, items): (String, Vec<Value>)| json!({"label": label, "children": [{"label": label, "children": items}]});
    let projects: Vec<Value> = projects.into_iter().map(project).collect();
    let data = json!({"menuProjects": projects, "envProps": environments, "gatewayUrl": gateway});
    success("query success", data)
}

const fn members(table: Table) -> (&'static [&'static str], &'static str) {
    match table {
        Table::Tag => (TAG_MEMBERS, "name"),
        _ => (API_MEMBERS, "apiPath"),
    }
}

async fn put(admin: &ShenyuAdmin, table: Table, id: Option<&str>, call: &Call) -> Outcome {
    let (body, id) = (call.object()?.clone(), id.map(str::to_owned));
    let id = id.or_else(|| row::filled(&body, "id"));
    admin
        .book
        .write(move |draft| {
            let before = id.as_ref().map(|id| {
                let missing = if table == Table::Tag { no_tag } else { no_api };
                draft.get(table, id).ok_or_else(missing)
            });
            let before = before.transpose()?;
            let (_, required) = members(table);
            if before.is_none() && row::filled(&body, required).is_none() {
                return Err(Refusal::missing(&[required]));
            }
            let message = if before.is_some() { "update success" } else { "create success" };
            let id = id.clone().unwrap_or_else(clock::new_id);
            write(draft, table, &id, &body)?;
            success(message, 1)
        })
        .await
}

/// Stores the known members of a body over the existing document.
fn write(draft: &mut Draft<'_>, table: Table, id: &str, body: &Row) -> Result<(), Refusal> {
    let before = draft.get(table, id);
    if before.is_none() && draft.find_all(table, |_| true).len() >= DOCUMENTS_MAX {
        let text = format!("{DOCUMENTS_MAX} documents are kept; delete some first");
        return Err(Refusal::error(text));
    }
    let mut made = before.map(|before| (*before).clone()).unwrap_or_default();
    for member in members(table).0 {
        if let Some(value) = body.get(*member).filter(|value| !value.is_null()) {
            made.insert((*member).to_owned(), value.clone());
        }
    }
    if table == Table::Tag {
        made.entry("parentTagId").or_insert_with(|| ROOT.into());
    }
    made.insert("id".to_owned(), id.into());
    made.entry("dateCreated").or_insert_with(|| draft.now.clone().into());
    made.insert("dateUpdated".to_owned(), draft.now.clone().into());
    draft.put(table, id, made);
    Ok(())
}

async fn remove(admin: &ShenyuAdmin, table: Table, call: &Call) -> Outcome {
    let ids = ids(&call.body)?;
    admin
        .book
        .write(move |draft| {
            let mut count = 0;
            for id in &ids {
                if draft.get(table, id).is_some() {
                    draft.delete(table, id);
                    count += 1;
                }
            }
            if count == 0 {
                return Err(if table == Table::Tag { no_tag() } else { no_api() });
            }
            success("delete success", count)
        })
        .await
}

/// Returns the unique name of an interface: RPC type, path and method.
fn api_name(row: &Row) -> Name {
    let text = |member: &str| row::text(row, member).unwrap_or_default();
    Name {
        table: Table::Api,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        parent: text("rpcType"),
        name: format!("{}/{}", text("apiPath"), text("httpMethod")),
    }
}

/// Answers `POST /shenyu-client/register-apiDoc`: a service registers an interface or takes its
/// interfaces offline.
pub(crate) async fn register(admin: &ShenyuAdmin, body: &Row) -> Outcome {
    if row::filled(body, "apiPath").is_none() {
        return Err(Refusal::missing(&["apiPath"]));
    }
    let body = body.clone();
    admin
        .book
        .write(move |draft| {
            if matches!(row::text(&body, "eventType").as_deref(), Some("OFFLINE" | "DELETED")) {
                return go_offline(draft, &body);
            }
            let mut row = body.clone();
            let names = body.get("tags").map(row::texts).unwrap_or_default();
            let tags: Result<Vec<String>, Refusal> =
                names.iter().map(|name| tag_named(draft, name)).collect();
            row.insert("tagIds".to_owned(), tags?.into());
            row.insert("state".to_owned(), PUBLISHED.into());
            let known = draft.find(&api_name(&row)).map(|(id, _)| id);
            write(draft, Table::Api, &known.unwrap_or_else(clock::new_id), &row)?;
            success("", Value::Null)
        })
        .await
}

/// Returns the id of the tag called `name`, creating the tag if it is missing.
fn tag_named(draft: &mut Draft<'_>, name: &str) -> Result<String, Refusal> {
    let named = Name {
        table: Table::Tag,
        namespace: DEFAULT_NAMESPACE.to_owned(),
        parent: String::new(),
        name: name.to_owned(),
    };
    if let Some((id, _)) = draft.find(&named) {
        return Ok(id);
    }
    let id = clock::new_id();
    let mut tag = Row::new();
    tag.insert("name".to_owned(), name.into());
    tag.insert("tagDesc".to_owned(), name.into());
    write(draft, Table::Tag, &id, &tag)?;
    Ok(id)
}

/// Marks all interfaces of a service offline.
fn go_offline(draft: &mut Draft<'_>, body: &Row) -> Outcome {
    let context = row::text(body, "contextPath");
    let is_meant = |row: &Row| {
        row::text(row, "contextPath") == context && row::number(row, "state") != Some(OFFLINE)
    };
    for (id, row) in draft.find_all(Table::Api, is_meant) {
        let mut row = (*row).clone();
        row.insert("state".to_owned(), OFFLINE.into());
        draft.put(Table::Api, &id, row);
    }
    success("", Value::Null)
}
