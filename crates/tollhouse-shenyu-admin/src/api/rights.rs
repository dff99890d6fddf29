//! Calls about menus, permissions of roles, and the visibility of selectors and rules.

use axum::http::Method;
use serde_json::{Value, json};

use super::objects::ids;
use crate::admin::{Caller, Session, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::menus::{Entry, entries, tree};
use crate::page::PageRequest;
use crate::rights::{forbid, permit};
use crate::row::{self, Row};
use crate::table::Table;

/// Answers the calls about rights. Returns `None` for every other path.
pub(super) async fn answer(
    Session { admin, caller }: Session<'_>,
    segments: &[&str],
    call: &Call,
) -> Option<Outcome> {
    Some(match (&call.method, segments) {
        (
            &Method::GET,
            ["permission", "getUserPermissionByToken" | "getUserPermissionByNamespace"],
        ) => permissions(admin, caller),
        (&Method::GET, ["resource", rest @ ..]) => resources(admin, rest, call),
        (&Method::POST, ["resource"]) => put_resource(admin, None, call).await,
        (&Method::PUT, ["resource", id]) => put_resource(admin, Some(id), call).await,
        (&Method::DELETE, ["resource", "batch"]) => remove_resources(admin, call).await,
        (_, ["resource", ..]) => Err(no_such_path()),
        (&Method::GET, ["role", id]) if *id != "getAllRoles" => one_role(admin, id),
        (&Method::GET, ["data-permission", what @ ("selector" | "rules")]) => {
            data_permissions(admin, what, call)
        }
        (&Method::POST, ["data-permission", what @ ("selector" | "rule")]) => {
            change_data_permission(admin, what, call, Change::Permit).await
        }
        (&Method::DELETE, ["data-permission", what @ ("selector" | "rule")]) => {
            change_data_permission(admin, what, call, Change::Forbid).await
        }
        (_, ["data-permission" | "permission", ..]) => Err(no_such_path()),
        _ => return None,
    })
}

/// Answers with the caller's menus and permissions, and with all permissions:
/// `{"menu":[…],"currentAuth":[…],"allAuth":[…]}`.
fn permissions(admin: &ShenyuAdmin, caller: &Caller) -> Outcome {
    let entries = entries(&admin.book.read());
    let button = |entry: &Entry| json!({"perms": entry.permission, "description": entry.title, "icon": entry.icon});
    let permitted: Vec<Value> = caller.rights.permitted_buttons(&entries).map(button).collect();
    let all: Vec<Value> = entries.iter().filter(|entry| entry.is_button()).map(button).collect();
    let is_shown = |entry: &Entry| !entry.is_button() && caller.rights.shows(&entries, entry);
    let menu = tree(&entries, "", &is_shown);
    let name = row::text(&caller.user, "userName");
    let data = json!({"menu": menu, "currentAuth": permitted, "allAuth": all, "userName": name});
    success("get menu and permission success", data)
}

fn resources(admin: &ShenyuAdmin, rest: &[&str], call: &Call) -> Outcome {
    let entries = entries(&admin.book.read());
    match rest {
        [] => {
            let title = call.argument("title").unwrap_or_default();
            let meant = entries.iter().filter(|entry| entry.title.contains(&title)).collect();
            success("query success", page(call).cut(meant, Entry::view))
        }
        ["menu"] => success("query success", tree(&entries, "", &|entry| !entry.is_button())),
        ["button"] => {
            let id = call.argument("id").ok_or_else(|| Refusal::missing(&["id"]))?;
            let below = entries.iter().filter(|entry| entry.parent == id && entry.is_button());
            success("query success", below.map(Entry::view).collect::<Vec<Value>>())
        }
        [id] => {
            let entry = entries.iter().find(|entry| entry.id == *id);
            let entry = entry.ok_or_else(|| Refusal::not_existed("resource not existed"))?;
            success("detail success", entry.view())
        }
        _ => Err(no_such_path()),
    }
}

/// Members of menus and buttons that are stored.
const RESOURCE_MEMBERS: &[&str] = &[
    "parentId",
    "title",
    "name",
    "url",
    "component",
    "resourceType",
    "sort",
    "icon",
    "isLeaf",
    "isRoute",
    "perms",
    "status",
];

/// Adds a menu or a button, or, if there is an id, changes one that was added before. Built-in ones
/// cannot be changed.
async fn put_resource(admin: &ShenyuAdmin, id: Option<&str>, call: &Call) -> Outcome {
    let body = call.object()?.clone();
    let id = id.map(str::to_owned).or_else(|| row::filled(&body, "id"));
    admin
        .book
        .write(move |draft| {
            let before = id.as_ref().and_then(|id| draft.get(Table::Resource, id));
            if id.is_some() && before.is_none() {
                return Err(built_in());
            }
            if row::filled(&body, "title").is_none() && before.is_none() {
                return Err(Refusal::missing(&["title"]));
            }
            let message = if before.is_some() { "update success" } else { "create success" };
            let mut made = before.map(|before| (*before).clone()).unwrap_or_default();
            for member in RESOURCE_MEMBERS {
                if let Some(value) = body.get(*member).filter(|value| !value.is_null()) {
                    made.insert((*member).to_owned(), value.clone());
                }
            }
            let id = id.clone().unwrap_or_else(clock::new_id);
            made.insert("id".to_owned(), id.clone().into());
            made.entry("dateCreated").or_insert_with(|| draft.now.clone().into());
            made.insert("dateUpdated".to_owned(), draft.now.clone().into());
            draft.put(Table::Resource, &id, made);
            success(message, 1)
        })
        .await
}

/// Deletes menus and buttons that were added, with everything below them.
async fn remove_resources(admin: &ShenyuAdmin, call: &Call) -> Outcome {
    let ids = ids(&call.body)?;
    admin
        .book
        .write(move |draft| {
            let mut gone: Vec<String> = Vec::new();
            let mut next = ids.clone();
            while let Some(id) = next.pop() {
                if gone.contains(&id) || draft.get(Table::Resource, &id).is_none() {
                    continue;
                }
                let is_below = |row: &Row| row::text(row, "parentId").as_ref() == Some(&id);
                let below = draft.find_all(Table::Resource, is_below);
                next.extend(below.into_iter().map(|(id, _)| id));
                draft.delete(Table::Resource, &id);
                gone.push(id);
            }
            if gone.is_empty() {
                return Err(built_in());
            }
            success("delete success", gone.len())
        })
        .await
}

/// Refuses a change of a menu or button that is derived from the plugins or the console.
fn built_in() -> Refusal {
    Refusal::error(
        "only menus and buttons that were added are changed: the others follow from the plugins",
    )
}

fn page(call: &Call) -> PageRequest {
    let number = |name: &str| call.argument(name)?.parse().ok();
    PageRequest::new(number("currentPage"), number("pageSize"))
}

/// Answers with a role, its permissions, and all permissions that exist.
fn one_role(admin: &ShenyuAdmin, id: &str) -> Outcome {
    let tables = admin.book.read();
    let role = tables.get(Table::Role, id);
    let role = role.ok_or_else(|| Refusal::not_existed("role is not existed"))?;
    let entries = entries(&tables);
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let permissions = role.row.get("currentPermissionIds").cloned().unwrap_or_else(|| json!([]));
    let all = json!({"treeList": tree(&entries, "", &|_| true), "permissionIds": ids});
    success(
        "detail success",
        json!({"rolePermissionList": permissions, "sysRole": *role.row, "allPermissionInfo": all}),
    )
}

/// Lists the selectors of a plugin, or the rules of a selector, and marks those that a user may
/// see.
fn data_permissions(admin: &ShenyuAdmin, what: &str, call: &Call) -> Outcome {
    let (table, parent) =
        if what == "rules" { (Table::Rule, "selectorId") } else { (Table::Selector, "pluginId") };
    let user = call.argument("userId").ok_or_else(|| Refusal::missing(&["userId"]))?;
    let (wanted, name) = (call.argument(parent), call.argument("name"));
    let tables = admin.book.read();
    let is_meant = |row: &Row| wanted.is_none() || row::text(row, parent) == wanted;
    let is_named = |row: &Row| {
        let stored_name = row::text(row, "name").unwrap_or_default();
        name.as_ref().is_none_or(|name| stored_name.contains(name))
    };
    let seen: std::collections::BTreeSet<String> = tables
        .rows(Table::DataPermission)
        .filter(|(_, row)| row::text(row, "userId").as_ref() == Some(&user))
        .filter_map(|(_, row)| row::text(row, "dataId"))
        .collect();
    let rows = tables.rows(table).filter(|(_, row)| is_meant(row) && is_named(row)).collect();
    let data = page(call).cut(rows, |(id, row)| {
        json!({"dataId": id, "dataName": row.get("name"), "isChecked": seen.contains(id)})
    });
    success("query success", data)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Permit,
    Forbid,
}

/// Permits or forbids a user to see a selector with its rules, or a rule. Permitting a rule also
/// permits its selector.
async fn change_data_permission(
    admin: &ShenyuAdmin,
    what: &str,
    call: &Call,
    change: Change,
) -> Outcome {
    let body = call.object()?;
    let (Some(user), Some(id)) = (row::filled(body, "userId"), row::filled(body, "dataId")) else {
        return Err(Refusal::missing(&["userId", "dataId"]));
    };
    let is_selector = what == "selector";
    admin
        .book
        .write(move |draft| {
            if draft.get(Table::User, &user).is_none() {
                return Err(Refusal::not_found("user is not found"));
            }
            let mut rows = Vec::new();
            if is_selector {
                rows.push((Table::Selector, id.clone()));
                let is_below = |row: &Row| row::text(row, "selectorId").as_ref() == Some(&id);
                let rules = draft.find_all(Table::Rule, is_below);
                rows.extend(rules.into_iter().map(|(rule, _)| (Table::Rule, rule)));
            } else {
                rows.push((Table::Rule, id.clone()));
                let rule = draft.get(Table::Rule, &id);
                let selector = rule.and_then(|rule| row::text(&rule, "selectorId"));
                // A rule is only reachable through its selector, so the selector must be visible
                // too.
                if change == Change::Permit {
                    rows.extend(selector.map(|selector| (Table::Selector, selector)));
                }
            }
            if change == Change::Permit
                && rows.iter().any(|(table, id)| draft.get(*table, id).is_none())
            {
                return Err(Refusal::not_found("selector or rule is not existed"));
            }
            for (table, id) in &rows {
                match change {
                    Change::Permit => permit(draft, &user, *table, id),
                    Change::Forbid => forbid(draft, &user, *table, id),
                }
            }
            match change {
                Change::Permit => success("save success", 1),
                Change::Forbid => success("delete success", 1),
            }
        })
        .await
}
