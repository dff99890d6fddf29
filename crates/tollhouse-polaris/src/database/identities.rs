//! Import of users, groups, roles and policies from Polaris' database. Tokens stay valid. Passwords do
//! not, because Polaris hashes them in another way.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize;
use tollhouse_registry::Object;
use tollhouse_registry::identity::{
    AccessRole, AccessToken, IdentityHead, IdentityKind, IdentityObject, PasswordHash, Policy,
    PolicyAction, Principal, ResourceKind, ResourceLabel, ResourcePattern, User, UserGroup,
};

use super::registered::{column, later_column};
use super::{ImportRefusal, Part, Row};

/// Numbers of Polaris for principals.
pub(super) const USER: i64 = 1;
pub(super) const GROUP: i64 = 2;
pub(super) const ROLE: i64 = 3;

pub(super) const USERS: Part = Part {
    name: "users",
    from: "user u",
    condition: "u.flag = 0",
    key: "u.id",
    columns: &[
        column("id", "u.id", "user", "id"),
        column("name", "u.name", "user", "name"),
        column("owner", "u.owner", "user", "owner"),
        column("source", "u.source", "user", "source"),
        later_column("mobile", "u.mobile", "user", "mobile"),
        later_column("email", "u.email", "user", "email"),
        column("token", "u.token", "user", "token"),
        column("token_enable", "u.token_enable", "user", "token_enable"),
        column("comment", "u.comment", "user", "comment"),
        later_column("metadata", "u.metadata", "user", "metadata"),
        column("ctime", "UNIX_TIMESTAMP(u.ctime)", "user", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(u.mtime)", "user", "mtime"),
    ],
    details: None,
    read: user,
    is_optional: true,
};

pub(super) const USER_GROUPS: Part = Part {
    name: "groups of users",
    from: "user_group g",
    condition: "g.flag = 0",
    key: "g.id",
    columns: &[
        column("id", "g.id", "user_group", "id"),
        column("name", "g.name", "user_group", "name"),
        column("owner", "g.owner", "user_group", "owner"),
        column("token", "g.token", "user_group", "token"),
        column("token_enable", "g.token_enable", "user_group", "token_enable"),
        column("comment", "g.comment", "user_group", "comment"),
        later_column("metadata", "g.metadata", "user_group", "metadata"),
        column(
            "members",
            "(SELECT JSON_ARRAYAGG(m.user_id) FROM user_group_relation m WHERE m.group_id = g.id)",
            "user_group_relation",
            "user_id",
        ),
        column("ctime", "UNIX_TIMESTAMP(g.ctime)", "user_group", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(g.mtime)", "user_group", "mtime"),
    ],
    details: None,
    read: user_group,
    is_optional: true,
};

pub(super) const ROLES: Part = Part {
    name: "roles",
    from: "auth_role r",
    condition: "r.flag = 0",
    key: "r.id",
    columns: &[
        column("id", "r.id", "auth_role", "id"),
        column("name", "r.name", "auth_role", "name"),
        column("owner", "r.owner", "auth_role", "owner"),
        column("source", "r.source", "auth_role", "source"),
        column("comment", "r.comment", "auth_role", "comment"),
        later_column("metadata", "r.metadata", "auth_role", "metadata"),
        column(
            "members",
            "(SELECT JSON_ARRAYAGG(JSON_OBJECT('id', m.principal_id, 'kind', m.principal_role)) FROM \
             auth_role_principal m WHERE m.role_id = r.id)",
            "auth_role_principal",
            "principal_id",
        ),
        column("ctime", "UNIX_TIMESTAMP(r.ctime)", "auth_role", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(r.mtime)", "auth_role", "mtime"),
    ],
    details: None,
    read: role,
    is_optional: true,
};

pub(super) const POLICIES: Part = Part {
    name: "policies",
    from: "auth_strategy s",
    condition: "s.flag = 0",
    key: "s.id",
    columns: &[
        column("id", "s.id", "auth_strategy", "id"),
        column("name", "s.name", "auth_strategy", "name"),
        column("action", "s.action", "auth_strategy", "action"),
        column("owner", "s.owner", "auth_strategy", "owner"),
        column("comment", "s.comment", "auth_strategy", "comment"),
        column("default", "s.`default`", "auth_strategy", "default"),
        later_column("source", "s.source", "auth_strategy", "source"),
        later_column("metadata", "s.metadata", "auth_strategy", "metadata"),
        column(
            "members",
            "(SELECT JSON_ARRAYAGG(JSON_OBJECT('id', p.principal_id, 'kind', p.principal_role)) FROM \
             auth_principal p WHERE p.strategy_id = s.id)",
            "auth_principal",
            "principal_id",
        ),
        column(
            "resources",
            "(SELECT JSON_ARRAYAGG(JSON_OBJECT('id', r.res_id, 'kind', r.res_type)) FROM \
             auth_strategy_resource r WHERE r.strategy_id = s.id)",
            "auth_strategy_resource",
            "res_id",
        ),
        later_column(
            "functions",
            "(SELECT JSON_ARRAYAGG(f.`function`) FROM auth_strategy_function f WHERE f.strategy_id = s.id)",
            "auth_strategy_function",
            "function",
        ),
        later_column(
            "labels",
            "(SELECT JSON_ARRAYAGG(JSON_OBJECT('key', l.`key`, 'value', l.`value`, 'compare', \
             l.compare_type)) FROM auth_strategy_label l WHERE l.strategy_id = s.id)",
            "auth_strategy_label",
            "key",
        ),
        column("ctime", "UNIX_TIMESTAMP(s.ctime)", "auth_strategy", "ctime"),
        column("mtime", "UNIX_TIMESTAMP(s.mtime)", "auth_strategy", "mtime"),
    ],
    details: None,
    read: policy,
    is_optional: true,
};

/// A member or resource: its id, and Polaris' number for its kind.
#[derive(Debug, Deserialize)]
struct Member {
    id: Arc<str>,
    kind: i64,
}

fn identity(object: IdentityObject) -> Object {
    Object::Identity(Box::new(object))
}

fn head(row: &Row) -> Result<IdentityHead, ImportRefusal> {
    Ok(IdentityHead {
        id: row.text("id").into(),
        name: row.text("name").into(),
        owner: row.text("owner").into(),
        source: row.text("source").into(),
        comment: row.text("comment").into(),
        metadata: row.json("metadata")?,
        created_at: row.time("ctime")?,
        modified_at: row.time("mtime")?,
        revision: row.revision(),
    })
}

fn token(row: &Row) -> Result<AccessToken, ImportRefusal> {
    Ok(AccessToken { text: row.text("token").into(), is_enabled: row.flag("token_enable")? })
}

fn user(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    Ok(identity(IdentityObject::User(Arc::new(User {
        head: head(row)?,
        mobile: row.text("mobile").into(),
        email: row.text("email").into(),
        password: PasswordHash::default(),
        token: token(row)?,
    }))))
}

fn user_group(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    Ok(identity(IdentityObject::Group(Arc::new(UserGroup {
        head: head(row)?,
        users: row.json("members")?,
        token: token(row)?,
    }))))
}

fn role(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let members: Vec<Member> = row.json("members")?;
    let of_kind = |kind: i64| -> BTreeSet<Arc<str>> {
        members.iter().filter(|it| it.kind == kind).map(|it| Arc::clone(&it.id)).collect()
    };
    Ok(identity(IdentityObject::Role(Arc::new(AccessRole {
        head: head(row)?,
        users: of_kind(USER),
        groups: of_kind(GROUP),
    }))))
}

fn policy(row: &Row, _: &[Row]) -> Result<Object, ImportRefusal> {
    let action = match row.text("action") {
        "ALLOW" => PolicyAction::Allow,
        "DENY" => PolicyAction::Deny,
        "READ_WRITE" => PolicyAction::ReadWrite,
        "ONLY_READ" => PolicyAction::ReadOnly,
        other => {
            let reason = format!("unknown action {other:?}");
            return Err(ImportRefusal::Unreadable { column: "action", reason });
        }
    };
    let principals: Vec<Member> = row.json("members")?;
    let resources: Vec<Member> = row.json("resources")?;
    Ok(identity(IdentityObject::Policy(Arc::new(Policy {
        head: head(row)?,
        action,
        principals: principals.iter().map(principal).collect::<Result<_, _>>()?,
        resources: resources.iter().map(resource).collect::<Result<_, _>>()?,
        functions: row.json("functions")?,
        labels: row.json::<Vec<ResourceLabel>>("labels")?,
        is_default: row.flag("default")?,
    }))))
}

fn principal(member: &Member) -> Result<Principal, ImportRefusal> {
    match member.kind {
        USER => Ok(Principal::user(&member.id)),
        GROUP => Ok(Principal::group(&member.id)),
        ROLE => Ok(Principal { kind: IdentityKind::Role, id: Arc::clone(&member.id) }),
        kind => {
            let reason = format!("unknown kind {kind}");
            Err(ImportRefusal::Unreadable { column: "principal_role", reason })
        }
    }
}

/// A resource of an unknown kind fails the policy: without it, a policy that denies would deny less.
fn resource(member: &Member) -> Result<ResourcePattern, ImportRefusal> {
    let kind = match member.kind {
        0 => ResourceKind::Namespace,
        1 => ResourceKind::Service,
        2 => ResourceKind::ConfigGroup,
        3 => ResourceKind::RouteRule,
        4 => ResourceKind::RateLimitRule,
        5 => ResourceKind::CircuitBreakerRule,
        6 => ResourceKind::FaultDetectRule,
        7 => ResourceKind::LaneRule,
        20 => ResourceKind::User,
        21 => ResourceKind::UserGroup,
        22 => ResourceKind::Role,
        23 => ResourceKind::Policy,
        kind => {
            let reason = format!("unknown kind {kind}");
            return Err(ImportRefusal::Unreadable { column: "res_type", reason });
        }
    };
    Ok(ResourcePattern { kind, text: (&*member.id).into() })
}
