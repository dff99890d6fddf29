//! Lists and single objects of users, groups, roles and policies.

use std::sync::Arc;

use prost::Message;
use tollhouse_registry::State;
use tollhouse_registry::identity::{
    IdentityKind, Policy, Principal, Resource, ResourceKind, User, UserGroup,
};

use super::messages::{self, Detail, MAIN, some};
use crate::access::{Access, Identity};
use crate::code::Code;
use crate::failure::Failure;
use crate::http::query::{Query, allows};
use crate::http::reply::{BATCH_QUERY, RESPONSE};
use crate::v1;

/// A call that reads.
pub(super) struct IdentityRead {
    /// Message type of the answer.
    pub(super) message: &'static str,
    /// Name of the call, as policies name it.
    pub(super) function: &'static str,
    /// Names of the query parameters that the call supports.
    pub(super) keys: &'static [&'static str],
    /// Function that returns the fields of the answer other than code and text.
    pub(super) find: fn(&Reader<'_>, &Query) -> Result<Vec<u8>, Failure>,
}

/// State and access of one read.
pub(super) struct Reader<'a> {
    pub(super) access: &'a Access,
    pub(super) state: &'a State,
    pub(super) identity: &'a Result<Identity, Code>,
}

pub(super) const USERS: IdentityRead = IdentityRead {
    message: BATCH_QUERY,
    function: "DescribeUsers",
    keys: &["id", "name", "owner", "source", "group_id", "hide_admin"],
    find: users,
};

pub(super) const USER_TOKEN: IdentityRead = IdentityRead {
    message: RESPONSE,
    function: "DescribeUserToken",
    keys: &["id", "name", "owner"],
    find: user_token,
};

pub(super) const GROUPS: IdentityRead = IdentityRead {
    message: BATCH_QUERY,
    function: "DescribeUserGroups",
    keys: &["id", "user_id", "user_name", "group_id", "name", "owner"],
    find: groups,
};

pub(super) const GROUP: IdentityRead = IdentityRead {
    message: RESPONSE,
    function: "DescribeUserGroupDetail",
    keys: &["id"],
    find: group,
};

pub(super) const GROUP_TOKEN: IdentityRead = IdentityRead {
    message: RESPONSE,
    function: "DescribeUserGroupToken",
    keys: &["id"],
    find: group_token,
};

pub(super) const POLICIES: IdentityRead = IdentityRead {
    message: BATCH_QUERY,
    function: "DescribeAuthPolicies",
    keys: &[
        "id",
        "name",
        "owner",
        "principal_id",
        "principal_type",
        "res_id",
        "res_type",
        "default",
        "show_detail",
    ],
    find: policies,
};

pub(super) const POLICY: IdentityRead = IdentityRead {
    message: RESPONSE,
    function: "DescribeAuthPolicyDetail",
    keys: &["id"],
    find: policy,
};

pub(super) const PRINCIPAL_RESOURCES: IdentityRead = IdentityRead {
    message: RESPONSE,
    function: "DescribePrincipalResources",
    keys: &["principal_id", "principal_type"],
    find: principal_resources,
};

pub(super) const ROLES: IdentityRead = IdentityRead {
    message: BATCH_QUERY,
    function: "DescribeAuthRoles",
    keys: &["id", "name", "owner", "source"],
    find: roles,
};

impl Reader<'_> {
    fn sees(&self, query: &Query, kind: ResourceKind, id: &str) -> bool {
        query.viewer.sees(self.state, Resource::by_id(kind, id))
    }

    /// Refuses a reader who may not see an object.
    fn check(&self, query: &Query, kind: ResourceKind, id: &str) -> Result<(), Failure> {
        match self.sees(query, kind, id) {
            true => Ok(()),
            false => Err(Code::NotAllowedAccess.into()),
        }
    }

    /// Whether the reader is the account of the bootstrap file.
    fn is_account(&self) -> bool {
        *self.identity == Ok(Identity::Account)
    }

    /// The account of the bootstrap file as a user.
    fn account(&self) -> v1::User {
        let name = self.access.account_name();
        v1::User {
            id: some(name),
            name: some(name),
            owner: some(""),
            source: some("Polaris"),
            token_enable: Some(true),
            user_type: some(MAIN),
            ..v1::User::default()
        }
    }
}

fn users(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let group = query.get("group_id");
    let group = group.map(|id| reader.state.user_group(id).ok_or(Code::NotFoundUserGroup));
    let group = group.transpose()?;
    let fits = |id: &str, name: &str, owner: &str, source: &str| {
        let texts = [("id", id), ("name", name), ("owner", owner), ("source", source)];
        texts.iter().all(|(key, text)| allows(query.get(key), text))
    };
    let stored = reader.state.users().filter(|user| {
        let head = &user.head;
        fits(&head.id, &head.name, &head.owner, &head.source)
            && group.is_none_or(|group| group.users.contains(&head.id))
            && reader.sees(query, ResourceKind::User, &head.id)
    });
    let mut stored: Vec<&Arc<User>> = stored.collect();
    stored.sort_by(|one, other| one.head.name.cmp(&other.head.name));
    let mut found = Vec::new();
    let name = reader.access.account_name();
    let shows_account = query.viewer.is_unlimited() && group.is_none();
    // The account owns the others, and is listed with them.
    if shows_account && (fits(name, name, "", "Polaris") || query.get("owner") == Some(name)) {
        found.push(reader.account());
    }
    found.extend(stored.into_iter().map(|it| messages::user(it)));
    let page = query.page()?.slice(&found).to_vec();
    let response = v1::BatchQueryResponse {
        amount: Some(found.len() as u32),
        size: Some(page.len() as u32),
        users: page,
        ..v1::BatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

fn user_token(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let (id, name) = (query.get("id"), query.get("name"));
    let account = reader.access.account_name();
    let user = match id.or(name) {
        None => return Err(Code::InvalidParameter.into()),
        // The account's token is shown to the account alone.
        Some(named) if named == account => {
            if !reader.is_account() {
                return Err(Code::NotAllowedAccess.into());
            }
            v1::User { auth_token: some(reader.access.account_token()), ..reader.account() }
        }
        Some(named) => {
            let by_id = id.and_then(|id| reader.state.user(id));
            let user = by_id.or_else(|| reader.state.user_named(name?));
            let Some(user) = user else {
                // A reader who may not see the user does not learn whether it exists.
                reader.check(query, ResourceKind::User, named)?;
                return Err(Code::NotFoundUser.into());
            };
            reader.check(query, ResourceKind::User, &user.head.id)?;
            v1::User {
                id: some(&user.head.id),
                name: some(&user.head.name),
                auth_token: some(&user.token.text),
                token_enable: Some(user.token.is_enabled),
                ..v1::User::default()
            }
        }
    };
    Ok(v1::Response { user: Some(user), ..v1::Response::default() }.encode_to_vec())
}

fn groups(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let member = query.get("user_id").map(Arc::<str>::from);
    let named = query.get("user_name").map(|name| {
        let user = reader.state.user_named(name).ok_or(Code::NotFoundUser)?;
        Ok::<_, Code>(Arc::clone(&user.head.id))
    });
    let named = named.transpose()?;
    let id = query.get("id").or_else(|| query.get("group_id"));
    let found = reader.state.user_groups().filter(|group| {
        let head = &group.head;
        let has = |member: &Option<Arc<str>>| {
            member.as_ref().is_none_or(|member| group.users.contains(member))
        };
        allows(id, &head.id)
            && allows(query.get("name"), &head.name)
            && allows(query.get("owner"), &head.owner)
            && has(&member)
            && has(&named)
            && reader.sees(query, ResourceKind::UserGroup, &head.id)
    });
    let mut found: Vec<&Arc<UserGroup>> = found.collect();
    found.sort_by(|one, other| one.head.name.cmp(&other.head.name));
    let page = query.page()?.slice(&found);
    let response = v1::BatchQueryResponse {
        amount: Some(found.len() as u32),
        size: Some(page.len() as u32),
        user_groups: page.iter().map(|it| messages::group(it)).collect(),
        ..v1::BatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

/// Returns the group that a query names.
fn known_group<'a>(reader: &Reader<'a>, query: &Query) -> Result<&'a Arc<UserGroup>, Failure> {
    let id = query.required("id", Code::InvalidUserGroupID)?;
    reader.check(query, ResourceKind::UserGroup, id)?;
    reader.state.user_group(id).ok_or_else(|| Code::NotFoundUserGroup.into())
}

fn group(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let group = messages::group_detail(reader.state, known_group(reader, query)?);
    Ok(v1::Response { user_group: Some(group), ..v1::Response::default() }.encode_to_vec())
}

fn group_token(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let group = known_group(reader, query)?;
    let message = v1::UserGroup {
        id: some(&group.head.id),
        auth_token: some(&group.token.text),
        token_enable: Some(group.token.is_enabled),
        ..v1::UserGroup::default()
    };
    Ok(v1::Response { user_group: Some(message), ..v1::Response::default() }.encode_to_vec())
}

fn policies(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let is_default = query.flag("default")?;
    let principal = query.get("principal_id").map(|id| principal_of(query, id));
    let resource = query.get("res_id").map(|id| (resource_kind_of(query), id));
    let found = reader.state.policies().filter(|policy| {
        let head = &policy.head;
        let texts = [("id", &*head.id), ("name", &*head.name), ("owner", &*head.owner)];
        texts.iter().all(|(key, text)| allows(query.get(key), text))
            && is_default.is_none_or(|is_default| policy.is_default == is_default)
            && principal.as_ref().is_none_or(|it| policy.principals.contains(it))
            && resource.is_none_or(|(kind, id)| covers(policy, kind, id))
            && is_visible(reader, query, policy)
    });
    let mut found: Vec<&Arc<Policy>> = found.collect();
    found.sort_by(|one, other| one.head.name.cmp(&other.head.name));
    let page = query.page()?.slice(&found);
    let detail = if query.flag("show_detail")? == Some(true) { Detail::Full } else { Detail::Head };
    let response = v1::BatchQueryResponse {
        amount: Some(found.len() as u32),
        size: Some(page.len() as u32),
        auth_strategies: page.iter().map(|it| messages::policy(reader.state, it, detail)).collect(),
        ..v1::BatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}

/// Whether a reader may see a policy: by a right to it, or because it is about the reader.
fn is_visible(reader: &Reader<'_>, query: &Query, policy: &Policy) -> bool {
    if reader.sees(query, ResourceKind::Policy, &policy.head.id) {
        return true;
    }
    let Ok(Identity::Member(member)) = reader.identity else {
        return false;
    };
    let memberships = reader.state.memberships_of(&member.principal);
    policy.principals.contains(&member.principal)
        || memberships.iter().any(|it| policy.principals.contains(it))
}

fn covers(policy: &Policy, kind: ResourceKind, id: &str) -> bool {
    let mut patterns = policy.resources.iter();
    patterns.any(|it| it.kind == kind && (&*it.text == id || &*it.text == "*"))
}

fn principal_of(query: &Query, id: &str) -> Principal {
    match query.get("principal_type") {
        Some("group" | "groups") => Principal::group(id),
        Some("role" | "roles") => Principal::role(id),
        _ => Principal::user(id),
    }
}

fn resource_kind_of(query: &Query) -> ResourceKind {
    match query.get("res_type") {
        Some("service") => ResourceKind::Service,
        Some("config_group") => ResourceKind::ConfigGroup,
        _ => ResourceKind::Namespace,
    }
}

fn policy(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let id = query.required("id", Code::EmptyQueryParameter)?;
    let policy = reader.state.policy(id);
    let Some(policy) = policy else {
        reader.check(query, ResourceKind::Policy, id)?;
        return Err(Code::NotFoundAuthStrategyRule.into());
    };
    if !is_visible(reader, query, policy) {
        return Err(Code::NotAllowedAccess.into());
    }
    let message = messages::policy(reader.state, policy, Detail::Full);
    Ok(v1::Response { auth_strategy: Some(message), ..v1::Response::default() }.encode_to_vec())
}

fn principal_resources(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    if !query.has_filters() {
        return Err(Code::EmptyRequest.into());
    }
    let id = query.required("principal_id", Code::EmptyQueryParameter)?;
    let principal = principal_of(query, id);
    let kind = match principal.kind {
        IdentityKind::User => ResourceKind::User,
        IdentityKind::Group => ResourceKind::UserGroup,
        IdentityKind::Role | IdentityKind::Policy => ResourceKind::Role,
    };
    reader.check(query, kind, id)?;
    let state = reader.state;
    let mut policies: Vec<&Arc<Policy>> = state.policies_of(&principal).iter().collect();
    for membership in state.memberships_of(&principal) {
        policies.extend(state.policies_of(membership));
    }
    let patterns: std::collections::BTreeSet<_> =
        policies.into_iter().flat_map(|policy| policy.resources.iter()).collect();
    let resources = messages::resources(state, "", patterns.into_iter());
    Ok(v1::Response { resources: Some(resources), ..v1::Response::default() }.encode_to_vec())
}

fn roles(reader: &Reader<'_>, query: &Query) -> Result<Vec<u8>, Failure> {
    let found = reader.state.access_roles().filter(|role| {
        let head = &role.head;
        let texts = [
            ("id", &*head.id),
            ("name", &*head.name),
            ("owner", &*head.owner),
            ("source", &*head.source),
        ];
        texts.iter().all(|(key, text)| allows(query.get(key), text))
            && reader.sees(query, ResourceKind::Role, &head.id)
    });
    let mut found: Vec<_> = found.collect();
    found.sort_by(|one, other| one.head.name.cmp(&other.head.name));
    let page = query.page()?.slice(&found);
    let data = page.iter().map(|role| prost_types::Any {
        type_url: "type.googleapis.com/v1.Role".to_owned(),
        value: messages::role(reader.state, role).encode_to_vec(),
    });
    let response = v1::BatchQueryResponse {
        amount: Some(found.len() as u32),
        size: Some(page.len() as u32),
        data: data.collect(),
        ..v1::BatchQueryResponse::default()
    };
    Ok(response.encode_to_vec())
}
