//! Conversion of users, groups, roles and policies to rows of Polaris' database, the reverse of
//! `identities.rs`. A policy is exported whole or not at all, because a part of it would allow more or
//! deny less.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tollhouse_registry::identity::{
    AccessRole, AccessToken, IdentityHead, IdentityKind, IdentityObject, Policy, PolicyAction,
    Principal, ResourceKind, ResourcePattern, User, UserGroup,
};

use super::identities::{GROUP, ROLE, USER};
use super::record::{Cell, Cells, DependentRows, Record, number, text};
use super::registered_rows::pairs;
use super::{Columns, ExportRefusal};

/// Password of a new row: no password has this hash, because Polaris hashes in another way.
const NO_PASSWORD: &str = "!";

/// Polaris' numbers for accounts with and without an owner.
const MAIN_ACCOUNT: i64 = 20;
const SUB_ACCOUNT: i64 = 50;

/// Tables of later versions. Without them a policy would be for all calls and all labels.
const FUNCTIONS: &str = "auth_strategy_function";
const LABELS: &str = "auth_strategy_label";

/// Returns the table of an object.
pub(super) fn table(kind: IdentityKind) -> &'static str {
    match kind {
        IdentityKind::User => "user",
        IdentityKind::Group => "user_group",
        IdentityKind::Role => "auth_role",
        IdentityKind::Policy => "auth_strategy",
    }
}

/// Converts an object; `owner` is the id of its owner in the database, and `resources` are those of a
/// policy by their ids there.
pub(super) fn record(
    object: &IdentityObject,
    owner: &str,
    schema: &Columns,
    resources: &BTreeSet<ResourcePattern>,
) -> Result<Record, ExportRefusal> {
    Ok(match object {
        IdentityObject::User(it) => user(it, owner),
        IdentityObject::Group(it) => group(it, owner),
        IdentityObject::Role(it) => role(it, owner),
        IdentityObject::Policy(it) => {
            let mut record = policy(it, owner, schema)?;
            push_resources(&mut record, &it.head.id, resources)?;
            record
        }
    })
}

fn headed(kind: IdentityKind, head: &IdentityHead, owner: &str) -> Record {
    Record {
        table: table(kind),
        key: "id",
        cells: vec![
            text("id", &*head.id),
            text("name", &*head.name),
            text("owner", owner),
            text("comment", &*head.comment),
            text("metadata", pairs(&head.metadata)),
            ("mtime", Cell::Now),
        ],
        born: vec![("ctime", Cell::Time(head.created_at))],
        unique: &["name", "owner"],
        ..Record::default()
    }
}

fn tokens(token: &AccessToken) -> Cells {
    vec![text("token", &*token.text), number("token_enable", token.is_enabled)]
}

fn user(user: &User, owner: &str) -> Record {
    let mut record = headed(IdentityKind::User, &user.head, owner);
    record.cells.extend(tokens(&user.token));
    record.cells.extend([
        text("source", &*user.head.source),
        text("mobile", &*user.mobile),
        text("email", &*user.email),
    ]);
    let kind = if owner.is_empty() { MAIN_ACCOUNT } else { SUB_ACCOUNT };
    record.born.extend([text("password", NO_PASSWORD), number("user_type", kind)]);
    record
}

fn group(group: &UserGroup, owner: &str) -> Record {
    let id = &*group.head.id;
    let mut record = headed(IdentityKind::Group, &group.head, owner);
    record.cells.extend(tokens(&group.token));
    let rows = group.users.iter().map(|user| vec![text("user_id", &**user), text("group_id", id)]);
    record.belongings.push(DependentRows {
        table: "user_group_relation",
        by: vec![text("group_id", id)],
        rows: rows.collect(),
    });
    record.joined.push(("members", json!(group.users).to_string()));
    record
}

fn role(role: &AccessRole, owner: &str) -> Record {
    let id = &*role.head.id;
    let mut record = headed(IdentityKind::Role, &role.head, owner);
    record.cells.push(text("source", &*role.head.source));
    let users = role.users.iter().map(|user| Principal::user(user));
    let groups = role.groups.iter().map(|group| Principal::group(group));
    push_members(
        &mut record,
        MemberTable { table: "auth_role_principal", by: "role_id", id },
        users.chain(groups).collect(),
    );
    record
}

/// Table with the principals of roles or policies, its referring column, and the id that it refers to.
struct MemberTable<'a> {
    table: &'static str,
    by: &'static str,
    id: &'a str,
}

/// Adds the principals of a role or policy.
fn push_members(record: &mut Record, at: MemberTable<'_>, members: BTreeSet<Principal>) {
    let MemberTable { table, by, id } = at;
    let row = |it: &Principal| {
        let kind = principal_number(it.kind);
        vec![text(by, id), text("principal_id", &*it.id), number("principal_role", kind)]
    };
    let rows = members.iter().map(row).collect();
    record.belongings.push(DependentRows { table, by: vec![text(by, id)], rows });
    let members = members.iter().map(|it| json!({"id": it.id, "kind": principal_number(it.kind)}));
    record.joined.push(("members", Value::Array(members.collect()).to_string()));
}

/// Policies are never principals.
fn principal_number(kind: IdentityKind) -> i64 {
    match kind {
        IdentityKind::User => USER,
        IdentityKind::Group => GROUP,
        IdentityKind::Role | IdentityKind::Policy => ROLE,
    }
}

fn policy(policy: &Policy, owner: &str, schema: &Columns) -> Result<Record, ExportRefusal> {
    let id = &*policy.head.id;
    let action = match policy.action {
        PolicyAction::Allow => "ALLOW",
        PolicyAction::Deny => "DENY",
        PolicyAction::ReadWrite => "READ_WRITE",
        PolicyAction::ReadOnly => "ONLY_READ",
    };
    let is_of_older_form =
        matches!(policy.action, PolicyAction::ReadWrite | PolicyAction::ReadOnly);
    let functions: BTreeSet<&str> = policy.functions.iter().map(|it| &**it).collect();
    if !schema.has_table(FUNCTIONS) && !(is_of_older_form && functions.is_empty()) {
        return Err(ExportRefusal::NoTable(FUNCTIONS));
    }
    if !schema.has_table(LABELS) && !policy.labels.is_empty() {
        return Err(ExportRefusal::NoTable(LABELS));
    }
    let keys: BTreeSet<&str> = policy.labels.iter().map(|it| &*it.key).collect();
    if keys.len() < policy.labels.len() {
        let text = "it has two conditions on one label, and the database takes one".to_owned();
        return Err(ExportRefusal::Misfit(text));
    }
    let mut record = headed(IdentityKind::Policy, &policy.head, owner);
    record.cells.extend([
        text("action", action),
        text("source", &*policy.head.source),
        number("default", policy.is_default),
        text("revision", policy.head.revision.to_string()),
    ]);
    push_members(
        &mut record,
        MemberTable { table: "auth_principal", by: "strategy_id", id },
        policy.principals.clone(),
    );
    let by = || vec![text("strategy_id", id)];
    let rows = functions.iter().map(|it| [by(), vec![text("function", *it)]].concat());
    record.belongings.push(DependentRows { table: FUNCTIONS, by: by(), rows: rows.collect() });
    record.joined.push(("functions", json!(functions).to_string()));
    let rows = policy.labels.iter().map(|label| {
        let cells = [
            text("key", &*label.key),
            text("value", &*label.value),
            text("compare_type", &*label.compare),
        ];
        [by(), cells.to_vec()].concat()
    });
    record.belongings.push(DependentRows { table: LABELS, by: by(), rows: rows.collect() });
    record.joined.push(("labels", json!(policy.labels).to_string()));
    Ok(record)
}

fn push_resources(
    record: &mut Record,
    id: &str,
    resources: &BTreeSet<ResourcePattern>,
) -> Result<(), ExportRefusal> {
    let mut rows = Vec::new();
    let mut read_back = Vec::new();
    for resource in resources {
        let kind = resource_number(resource.kind)?;
        rows.push(vec![
            text("strategy_id", id),
            number("res_type", kind),
            text("res_id", &*resource.text),
        ]);
        read_back.push(json!({"id": resource.text, "kind": kind}));
    }
    let by = vec![text("strategy_id", id)];
    record.belongings.push(DependentRows { table: "auth_strategy_resource", by, rows });
    record.joined.push(("resources", Value::Array(read_back).to_string()));
    Ok(())
}

fn resource_number(kind: ResourceKind) -> Result<i64, ExportRefusal> {
    Ok(match kind {
        ResourceKind::Namespace => 0,
        ResourceKind::Service => 1,
        ResourceKind::ConfigGroup => 2,
        ResourceKind::RouteRule => 3,
        ResourceKind::RateLimitRule => 4,
        ResourceKind::CircuitBreakerRule => 5,
        ResourceKind::FaultDetectRule => 6,
        ResourceKind::LaneRule => 7,
        ResourceKind::User => 20,
        ResourceKind::UserGroup => 21,
        ResourceKind::Role => 22,
        ResourceKind::Policy => 23,
        ResourceKind::Gateway => return Err(ExportRefusal::NamesGateway),
    })
}
