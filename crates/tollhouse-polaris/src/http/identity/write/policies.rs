//! Policies and roles.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollhouse_registry::identity::{
    AccessRole, IdentityKind, IdentityObject, IdentityWrite as Change, Policy, ResourceKind,
    ResourcePattern,
};
use tollhouse_registry::{ServiceRef, State};

use super::super::messages;
use super::users::check_name;
use super::{Done, Item, new_id, text};
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

/// Maximum length of a role's name in characters.
const ROLE_NAME_CHARS_MAX: usize = 64;

pub(super) async fn create(item: &Item<'_>) -> Done {
    let mut message: v1::AuthStrategy = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = try_create(item, &message).await;
    message.owner = Some(item.account_name().to_owned());
    let result = result.map(|id| message.id = Some(id));
    Done::new(result, v1::Response { auth_strategy: Some(message), ..Default::default() })
}

async fn try_create(item: &Item<'_>, message: &v1::AuthStrategy) -> Result<String, Failure> {
    item.may_create()?;
    check_name(text(message.name.as_ref()), Code::InvalidUserName)?;
    let id = new_id();
    let mut head = messages::new_head(id.clone(), message.name.as_ref(), item.account_name());
    head.comment = text(message.comment.as_ref()).into();
    head.metadata = messages::metadata_of(&message.metadata);
    if let Some(source) = message.source.as_deref().filter(|source| !source.is_empty()) {
        head.source = source.into();
    }
    let resources = {
        let state = item.api.registry().state();
        let resources = message.resources.as_ref();
        let resources = resources.map_or_else(Vec::new, |it| messages::resources_of(&state, it));
        check_resources(&state, &resources)?;
        resources
    };
    let mut policy = Policy {
        action: messages::action_of(message.action()),
        principals: message.principals.as_ref().map(messages::principals_of).unwrap_or_default(),
        resources: resources.into_iter().collect(),
        functions: message.functions.iter().map(|it| it.as_str().into()).collect(),
        labels: message.resource_labels.iter().map(messages::label_of).collect(),
        is_default: false,
        head,
    };
    set_gateway(&mut policy);
    item.may_grant(&policy)?;
    match item.write(vec![Change::Create(policy.into())]).await {
        Err(failure) if failure.code == Code::ExistedResource => {
            Err(Code::AuthStrategyRuleExisted.into())
        }
        done => done.map(|()| id),
    }
}

/// Refuses the exact name of a namespace or service that does not exist, as Polaris does, so that a
/// misspelt name is noticed.
fn check_resources(state: &State, resources: &[ResourcePattern]) -> Result<(), Failure> {
    for pattern in resources {
        let text = &*pattern.text;
        if text.ends_with('*') {
            continue;
        }
        let is_service = || match text.split_once('/') {
            Some((namespace, name)) => state.service(ServiceRef { namespace, name }).is_some(),
            None => state.services().any(|view| view.service.id == text),
        };
        match pattern.kind {
            ResourceKind::Namespace if state.namespace(text).is_none() => {
                return Err(Code::NotFoundNamespace.into());
            }
            ResourceKind::Service if !is_service() => return Err(Code::NotFoundService.into()),
            _ => {}
        }
    }
    Ok(())
}

/// Sets the objects of the gateway that a policy covers by its metadata.
fn set_gateway(policy: &mut Policy) {
    policy.resources.retain(|pattern| pattern.kind != ResourceKind::Gateway);
    let patterns: Vec<ResourcePattern> = messages::gateway_of(&policy.head.metadata).collect();
    policy.resources.extend(patterns);
}

pub(super) async fn update(item: &Item<'_>) -> Done {
    let message: v1::ModifyAuthStrategy = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = try_update(item, &message).await;
    Done::new(result, v1::Response { modify_auth_strategy: Some(message), ..Default::default() })
}

async fn try_update(item: &Item<'_>, message: &v1::ModifyAuthStrategy) -> Result<(), Failure> {
    let id = text(message.id.as_ref());
    item.may(ResourceKind::Policy, id)?;
    let name = text(message.name.as_ref());
    let (added, removed) = {
        let state = item.api.registry().state();
        let resources = |it: &Option<v1::StrategyResources>| {
            it.as_ref().map_or_else(Vec::new, |it| messages::resources_of(&state, it))
        };
        let added = resources(&message.add_resources);
        check_resources(&state, &added)?;
        (added, resources(&message.remove_resources))
    };
    let principals =
        |it: &Option<v1::Principals>| it.as_ref().map(messages::principals_of).unwrap_or_default();
    let (joining, leaving) =
        (principals(&message.add_principals), principals(&message.remove_principals));
    item.edit(IdentityKind::Policy, id, |object| {
        let IdentityObject::Policy(mut stored) = object else { return Ok(object) };
        let is_narrower = stored.clone();
        let policy = Arc::make_mut(&mut stored);
        if policy.is_default {
            if !joining.is_empty() || !leaving.is_empty() {
                return Err(Code::NotAllowModifyDefaultStrategyPrincipal.into());
            }
        } else {
            if !name.is_empty() && name != &*policy.head.name {
                check_name(name, Code::InvalidAuthStrategyName)?;
                policy.head.name = name.into();
            }
            // The field is present in every message of consoles, whose default is to read only.
            policy.action = messages::action_of(message.action());
        }
        if let Some(comment) = &message.comment {
            policy.head.comment = comment.as_str().into();
        }
        policy.principals.extend(joining.iter().cloned());
        policy.principals.retain(|principal| !leaving.contains(principal));
        policy.resources.extend(added.iter().cloned());
        policy.resources.retain(|resource| !removed.contains(resource));
        if !message.functions.is_empty() {
            policy.functions = message.functions.iter().map(|it| it.as_str().into()).collect();
        }
        if !message.resource_labels.is_empty() {
            policy.labels = message.resource_labels.iter().map(messages::label_of).collect();
        }
        if !message.metadata.is_empty() {
            policy.head.metadata = messages::metadata_of(&message.metadata);
            set_gateway(policy);
        }
        if *policy != *is_narrower {
            item.may_grant(policy)?;
        }
        Ok(IdentityObject::Policy(stored))
    })
    .await
}

pub(super) async fn delete(item: &Item<'_>) -> Done {
    let message: v1::AuthStrategy = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = async {
        let id = text(message.id.as_ref());
        item.may(ResourceKind::Policy, id)?;
        let is_default = {
            let state = item.api.registry().state();
            state.policy(id).is_some_and(|policy| policy.is_default)
        };
        if is_default {
            return Err(Failure::with(Code::BadRequest, "default strategy can't delete"));
        }
        item.delete(IdentityKind::Policy, id).await
    };
    let result = result.await;
    Done::new(result, v1::Response { auth_strategy: Some(message), ..Default::default() })
}

pub(super) async fn create_role(item: &Item<'_>) -> Done {
    let result = async {
        let message: v1::Role = item.decode()?;
        item.may_create()?;
        check_role_name(&message.name)?;
        let id = if message.id.is_empty() { new_id() } else { message.id.clone() };
        let mut head = messages::new_head(id, Some(&message.name), item.account_name());
        head.comment = message.comment.as_str().into();
        head.metadata = messages::metadata_of(&message.metadata);
        let role = AccessRole { head, users: users_of(&message), groups: groups_of(&message) };
        item.write(vec![Change::Create(role.into())]).await
    };
    Done::new(result.await, v1::Response::default())
}

pub(super) async fn update_role(item: &Item<'_>) -> Done {
    let result = async {
        let message: v1::Role = item.decode()?;
        item.may(ResourceKind::Role, &message.id)?;
        item.edit(IdentityKind::Role, &message.id, |object| {
            let IdentityObject::Role(mut role) = object else { return Ok(object) };
            let changed = Arc::make_mut(&mut role);
            changed.head.comment = message.comment.as_str().into();
            changed.head.metadata = messages::metadata_of(&message.metadata);
            changed.users = users_of(&message);
            changed.groups = groups_of(&message);
            Ok(IdentityObject::Role(role))
        })
        .await
    };
    Done::new(result.await, v1::Response::default())
}

pub(super) async fn delete_role(item: &Item<'_>) -> Done {
    let result = async {
        let message: v1::Role = item.decode()?;
        item.may(ResourceKind::Role, &message.id)?;
        item.delete(IdentityKind::Role, &message.id).await
    };
    Done::new(result.await, v1::Response::default())
}

fn check_role_name(name: &str) -> Result<(), Failure> {
    let length = name.chars().count();
    if (1..=ROLE_NAME_CHARS_MAX).contains(&length) {
        return Ok(());
    }
    Err(Failure::with(Code::InvalidParameter, "name"))
}

fn users_of(role: &v1::Role) -> BTreeSet<Arc<str>> {
    role.users.iter().filter_map(|user| user.id.as_deref()).map(Arc::from).collect()
}

fn groups_of(role: &v1::Role) -> BTreeSet<Arc<str>> {
    role.user_groups.iter().filter_map(|group| group.id.as_deref()).map(Arc::from).collect()
}
