//! Rights of users. The role `super` permits everything. Other users may read everything except
//! secrets, and write what the permissions of their roles name. A user with data permissions sees
//! only the selectors and rules that they list.

use std::collections::BTreeSet;

use axum::http::Method;
use serde_json::{Value, json};

use crate::answer::Refusal;
use crate::call::is_search;
use crate::draft::Draft;
use crate::menus::Entry;
use crate::row::{self, Row};
use crate::seed::SUPER_ROLE;
use crate::table::Table;
use crate::tables::Tables;

/// Paths for users with the role `super` only. With them a user could grant any right, read every
/// secret or redirect requests anywhere.
const SUPER_ONLY: &[&str] = &[
    "dashboardUser",
    "role",
    "resource",
    "data-permission",
    "configs",
    "shenyu-client",
    "operation-record",
];

/// Paths that need a permission even for reading, because their rows contain secrets.
const SECRET: &[&str] = &["appAuth"];

/// Areas of permissions, by the first segment of the path.
const AREAS: &[(&str, &str)] = &[
    ("plugin", "plugin"),
    ("plugin-template", "plugin"),
    ("namespace-plugin", "plugin"),
    // The page of a namespace's plugins has separate permissions. Either area suffices.
    ("namespace-plugin", "namespacePlugin"),
    ("plugin-handle", "pluginHandler"),
    ("appAuth", "authen"),
    ("meta-data", "meta"),
    ("shenyu-dict", "dict"),
    ("namespace", "namespace"),
    ("api", "api"),
    ("tag", "api"),
];

#[derive(Debug, Clone, Default)]
pub(crate) struct Rights {
    may_all: bool,
    permissions: BTreeSet<String>,
    /// Ids of the visible selectors and rules; `None` if all are visible.
    seen: Option<BTreeSet<String>>,
}

/// Parts of a call that rights depend on.
#[derive(Clone, Copy)]
pub(crate) struct CallParts<'a> {
    pub(crate) method: &'a Method,
    pub(crate) segments: &'a [&'a str],
    pub(crate) body: &'a Value,
}

impl Rights {
    /// Returns the rights of the role `super`.
    pub(crate) fn everything() -> Self {
        Self { may_all: true, ..Self::default() }
    }

    /// Determines the rights of a user.
    pub(crate) fn read(tables: &Tables, user: &Row) -> Self {
        let roles = user.get("roles").map(row::texts).unwrap_or_default();
        // The member `role` is ignored, because consoles write the same value for every user.
        let may_all = roles.iter().any(|role| role == SUPER_ROLE);
        if may_all {
            return Self { may_all, ..Self::default() };
        }
        let roles = roles.iter().filter_map(|role| tables.get(Table::Role, role));
        let mut permissions: BTreeSet<String> =
            roles.flat_map(|role| row_texts(&role.row, "currentPermissionIds")).collect();
        // A role lists an added button by its id, and thereby gets the permission that the button
        // names.
        let added = tables.rows(Table::Resource).filter(|(id, _)| permissions.contains(*id));
        let added: Vec<String> = added.filter_map(|(_, row)| row::filled(row, "perms")).collect();
        permissions.extend(added);
        let id = row::text(user, "id");
        let mine =
            tables.rows(Table::DataPermission).filter(|(_, row)| row::text(row, "userId") == id);
        let seen: BTreeSet<String> = mine.filter_map(|(_, row)| row::text(row, "dataId")).collect();
        Self { may_all, permissions, seen: (!seen.is_empty()).then_some(seen) }
    }

    /// Whether the user may see a row.
    pub(crate) fn may_see(&self, table: Table, id: &str) -> bool {
        let Some(seen) = &self.seen else { return true };
        !matches!(table, Table::Selector | Table::Rule) || seen.contains(id)
    }

    pub(crate) const fn may_everything(&self) -> bool {
        self.may_all
    }

    pub(crate) fn may(&self, permission: &str) -> bool {
        self.may_all || self.permissions.contains(permission)
    }

    /// Whether the user sees only some selectors and rules.
    pub(crate) const fn is_restricted(&self) -> bool {
        self.seen.is_some()
    }

    /// Refuses calls to paths for `super` only. Runs before the body of the call is read.
    pub(crate) fn check_path(&self, segments: &[&str]) -> Result<(), Refusal> {
        let is_super_only = segments.first().is_some_and(|first| SUPER_ONLY.contains(first));
        if is_super_only && !self.may_all { Err(Refusal::permission()) } else { Ok(()) }
    }

    /// Refuses a call that the user has no permission for.
    pub(crate) fn check(&self, tables: &Tables, call: CallParts<'_>) -> Result<(), Refusal> {
        if self.may_all {
            return Ok(());
        }
        let refused = || Err(Refusal::permission());
        let Some((first, rest)) = call.segments.split_first() else { return refused() };
        let reads = *call.method == Method::GET || is_search(rest);
        // Before ShenYu 2.7 a secret is changed with GET, so `updateSk` counts as a change.
        let reads = reads && !rest.ends_with(&["updateSk"]);
        if reads && !SECRET.contains(first) {
            return Ok(());
        }
        let needed = match *first {
            "selector" => self.needed_of_plugins(tables, call, Table::Selector),
            "rule" => self.needed_of_plugins(tables, call, Table::Rule),
            first => {
                let verb = if reads { "list" } else { verb(call.method, rest, call.body) };
                let mut areas = AREAS.iter().filter(|(path, _)| *path == first);
                let names = |(_, area): &(&str, &str)| format!("system:{area}:{verb}");
                let may = areas.any(|area| self.permissions.contains(&names(area)));
                return if may { Ok(()) } else { refused() };
            }
        };
        match needed {
            Some(needed) if needed.iter().all(|it| self.permissions.contains(it)) => Ok(()),
            _ => refused(),
        }
    }

    /// Returns the permissions that a change of selectors or rules needs: one for each plugin
    /// concerned. Returns `None` if the change concerns a row that the user may not see, or no
    /// existing plugin.
    fn needed_of_plugins(
        &self,
        tables: &Tables,
        call: CallParts<'_>,
        table: Table,
    ) -> Option<Vec<String>> {
        let noun = if table == Table::Selector { "Selector" } else { "Rule" };
        let rest = call.segments.get(1..).unwrap_or_default();
        let verb = match verb(call.method, rest, call.body) {
            "disable" => "edit",
            verb => verb,
        };
        let mut ids = row::texts(call.body.get("ids").unwrap_or(call.body));
        ids.extend(call.body.as_object().and_then(|body| row::filled(body, "id")));
        ids.extend(rest.first().map(|id| (*id).to_owned()));
        let member = |name: &str| row::filled(call.body.as_object()?, name);
        let mut plugins = BTreeSet::new();
        for id in &ids {
            if let Some(stored) = tables.get(table, id) {
                if !self.may_see(table, id) {
                    return None;
                }
                plugins.extend(row::text(&stored.row, "pluginName"));
            }
        }
        // Moving a row to another plugin needs permission for both plugins.
        if let Some(stored) = member("pluginId").and_then(|id| tables.get(Table::Plugin, &id)) {
            plugins.extend(row::text(&stored.row, "name"));
        }
        if let Some(id) = member("selectorId") {
            if !self.may_see(Table::Selector, &id) {
                return None;
            }
            let selector = tables.get(Table::Selector, &id);
            plugins.extend(selector.and_then(|stored| row::text(&stored.row, "pluginName")));
        }
        let needed = plugins.iter().map(|plugin| format!("plugin:{plugin}{noun}:{verb}"));
        (!plugins.is_empty()).then(|| needed.collect())
    }

    /// Lists the buttons that the user holds the permission for.
    pub(crate) fn permitted_buttons<'a>(
        &'a self,
        entries: &'a [Entry],
    ) -> impl Iterator<Item = &'a Entry> {
        entries
            .iter()
            .filter(|entry| entry.is_button())
            .filter(|entry| self.may_all || self.permissions.contains(&entry.id))
    }

    /// Whether a menu is shown to the user: a role lists the menu, or an entry up to two levels
    /// below it.
    pub(crate) fn shows(&self, entries: &[Entry], menu: &Entry) -> bool {
        let holds = |entry: &Entry| self.permissions.contains(&entry.id);
        let is_below = |entry: &&Entry| {
            entry.parent == menu.id
                || entries.iter().any(|it| it.id == entry.parent && it.parent == menu.id)
        };
        self.may_all || holds(menu) || entries.iter().filter(is_below).any(holds)
    }
}

/// Returns the verb of a change as permissions name it.
fn verb(method: &Method, rest: &[&str], body: &Value) -> &'static str {
    let has_id = || body.as_object().and_then(|body| row::filled(body, "id")).is_some();
    match (method, rest) {
        (&Method::DELETE, _) | (_, ["batchDelete" | "batchDeleted"]) => "delete",
        (_, ["batchEnabled" | "enabled" | "enabledByNamespace" | "batchOpened"]) => "disable",
        (_, ["syncData" | "syncPluginAll" | "syncPluginData", ..]) => "modify",
        (&Method::POST, [] | [_, _]) => "add",
        (_, ["apply" | "createOrUpdate" | "insertOrUpdate"]) if !has_id() => "add",
        _ => "edit",
    }
}

fn row_texts(row: &Row, member: &str) -> Vec<String> {
    row.get(member).map(row::texts).unwrap_or_default()
}

/// Permits a user to see a selector or a rule.
pub(crate) fn permit(draft: &mut Draft<'_>, user: &str, table: Table, id: &str) {
    let Some(kind) = data_type(table) else { return };
    let key = data_permission_id(user, kind, id);
    let mut row = Row::new();
    for (member, value) in [
        ("id", json!(key)),
        ("userId", json!(user)),
        ("dataId", json!(id)),
        ("dataType", json!(kind)),
        ("dateCreated", json!(draft.now)),
        ("dateUpdated", json!(draft.now)),
    ] {
        row.insert(member.to_owned(), value);
    }
    draft.put(Table::DataPermission, &key, row);
}

/// Withdraws the permission to see a selector or a rule.
pub(crate) fn forbid(draft: &mut Draft<'_>, user: &str, table: Table, id: &str) {
    if let Some(kind) = data_type(table) {
        draft.delete(Table::DataPermission, &data_permission_id(user, kind, id));
    }
}

const fn data_type(table: Table) -> Option<i64> {
    match table {
        Table::Selector => Some(0),
        Table::Rule => Some(1),
        _ => None,
    }
}

fn data_permission_id(user: &str, kind: i64, id: &str) -> String {
    format!("{user}-{kind}-{id}")
}
