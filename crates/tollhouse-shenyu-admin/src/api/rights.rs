//! Calls about menus, permissions of roles, and who sees which selectors and rules.

use axum::http::Method;
use serde_json::{Value, json};

use crate::admin::{Caller, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::page::PageRequest;
use crate::rights::{Entry, entries, forbid, permit};
use crate::row::{self, Row};
use crate::table::Table;

/// Answers what is about rights; `None` for everything else.
pub(super) async fn answer(
    admin: &ShenyuAdmin,
    caller: &Caller,
    segments: &[&str],
    call: &Call,
) -> Option<Outcome> {
    Some(match (&call.method, segments) {
        (&Method::GET, ["permission", "getUserPermissionByToken"]) => permissions(admin, caller),
        (&Method::GET, ["resource", rest @ ..]) => resources(admin, rest, call),
        (_, ["resource", ..]) => Err(Refusal::error(
            "menus and their permissions follow from the plugins here; add a plugin instead",
        )),
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

/// `{"menu":[…],"currentAuth":[…],"allAuth":[…]}`.
fn permissions(admin: &ShenyuAdmin, caller: &Caller) -> Outcome {
    let entries = entries(&admin.book.read());
    let button = |entry: &Entry| json!({"perms": entry.id, "description": entry.title, "icon": ""});
    let held: Vec<Value> = caller.rights.held(&entries).map(button).collect();
    let all: Vec<Value> = entries.iter().filter(|entry| entry.is_button()).map(button).collect();
    let menu = tree(&entries, "", &|entry| !entry.is_button());
    let name = row::text(&caller.user, "userName");
    let data = json!({"menu": menu, "currentAuth": held, "allAuth": all, "userName": name});
    success("query success", data)
}

/// The entries below one, each with those below it.
fn tree(entries: &[Entry], parent: &str, is_meant: &dyn Fn(&Entry) -> bool) -> Value {
    let below = entries.iter().filter(|entry| entry.parent == parent && is_meant(entry));
    let view = |entry: &Entry| {
        json!({"id": entry.id, "parentId": entry.parent, "name": entry.name, "title": entry.title,
            "url": entry.url, "component": entry.name, "sort": 0, "isLeaf": entry.is_button(),
            "meta": {"icon": "", "title": entry.title}, "children": tree(entries, &entry.id, is_meant)})
    };
    below.map(view).collect()
}

/// An entry as the list of menus has it.
fn view(entry: &Entry) -> Value {
    let kind = match (entry.is_button(), entry.parent.is_empty()) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    };
    json!({"id": entry.id, "parentId": entry.parent, "title": entry.title, "name": entry.name,
        "url": entry.url, "component": entry.name, "resourceType": kind, "sort": 0, "icon": "",
        "isLeaf": entry.is_button(), "isRoute": 0, "perms": if kind == 2 { entry.id.as_str() } else { "" },
        "status": 1, "dateCreated": null, "dateUpdated": null})
}

fn resources(admin: &ShenyuAdmin, rest: &[&str], call: &Call) -> Outcome {
    let entries = entries(&admin.book.read());
    match rest {
        [] => {
            let title = call.argument("title").unwrap_or_default();
            let meant = entries.iter().filter(|entry| entry.title.contains(&title)).collect();
            success("query success", page(call).cut(meant, view))
        }
        ["menu"] => success("query success", tree(&entries, "", &|entry| !entry.is_button())),
        ["button"] => {
            let id = call.argument("id").ok_or_else(|| Refusal::missing(&["id"]))?;
            let below = entries.iter().filter(|entry| entry.parent == id && entry.is_button());
            success("query success", below.map(view).collect::<Vec<Value>>())
        }
        [id] => {
            let entry = entries.iter().find(|entry| entry.id == *id);
            let entry = entry.ok_or_else(|| Refusal::not_found("resource not existed"))?;
            success("detail success", view(entry))
        }
        _ => Err(no_such_path()),
    }
}

fn page(call: &Call) -> PageRequest {
    let number = |name: &str| call.argument(name)?.parse().ok();
    PageRequest::new(number("currentPage"), number("pageSize"))
}

/// A role, what it permits, and what there is to permit.
fn one_role(admin: &ShenyuAdmin, id: &str) -> Outcome {
    let tables = admin.book.read();
    let role = tables.get(Table::Role, id);
    let role = role.ok_or_else(|| Refusal::not_found("role is not existed"))?;
    let entries = entries(&tables);
    let ids: Vec<&str> = entries.iter().map(|entry| entry.id.as_str()).collect();
    let held = role.row.get("currentPermissionIds").cloned().unwrap_or_else(|| json!([]));
    let all = json!({"treeList": tree(&entries, "", &|_| true), "permissionIds": ids});
    success(
        "detail success",
        json!({"rolePermissionList": held, "sysRole": *role.row, "allPermissionInfo": all}),
    )
}

/// Selectors of a plugin, or rules of a selector, and which of them a user sees.
fn data_permissions(admin: &ShenyuAdmin, what: &str, call: &Call) -> Outcome {
    let (table, parent) =
        if what == "rules" { (Table::Rule, "selectorId") } else { (Table::Selector, "pluginId") };
    let user = call.argument("userId").ok_or_else(|| Refusal::missing(&["userId"]))?;
    let (wanted, name) = (call.argument(parent), call.argument("name"));
    let tables = admin.book.read();
    let is_meant = |row: &Row| wanted.is_none() || row::text(row, parent) == wanted;
    let is_named = |row: &Row| {
        let found = row::text(row, "name").unwrap_or_default();
        name.as_ref().is_none_or(|name| found.contains(name))
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

/// Lets a user see a selector with its rules, or a rule with its selector; or no longer.
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
                // A rule is of no use to whoever does not see its selector.
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
                    Change::Permit => permit(draft, &user, (*table, id)),
                    Change::Forbid => forbid(draft, &user, (*table, id)),
                }
            }
            match change {
                Change::Permit => success("save success", 1),
                Change::Forbid => success("delete success", 1),
            }
        })
        .await
}
