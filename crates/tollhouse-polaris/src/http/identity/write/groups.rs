//! Groups of users.

use std::collections::BTreeSet;
use std::sync::Arc;

use tollhouse_registry::identity::{
    AccessToken, IdentityKind, IdentityObject, IdentityWrite as Change, Principal, ResourceKind,
    UserGroup,
};

use super::super::messages;
use super::users::check_name;
use super::{Done, Item, new_id, text};
use crate::access::new_token;
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

pub(super) async fn create(item: &Item<'_>) -> Done {
    let mut message: v1::UserGroup = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = try_create(item, &message).await;
    message.owner = Some(item.account_name().to_owned());
    let result = result.map(|id| message.id = Some(id));
    Done::new(result, v1::Response { user_group: Some(message), ..Default::default() })
}

async fn try_create(item: &Item<'_>, message: &v1::UserGroup) -> Result<String, Failure> {
    item.may_create()?;
    let name = text(message.name.as_ref());
    check_name(name, Code::InvalidParameter)?;
    let id = new_id();
    let mut head = messages::new_head(id.clone(), message.name.as_ref(), item.account_name());
    head.comment = text(message.comment.as_ref()).into();
    head.metadata = messages::metadata_of(&message.metadata);
    let group = UserGroup {
        head,
        users: members(message.relation.as_ref()),
        token: AccessToken { text: new_token().into(), is_enabled: true },
    };
    let policy = item.own_policy(Principal::group(&id), name);
    let changes = vec![Change::Create(group.into()), Change::Create(policy.into())];
    match item.write(changes).await {
        Err(failure) if failure.code == Code::ExistedResource => Err(Code::UserGroupExisted.into()),
        done => done.map(|()| id),
    }
}

pub(super) async fn update(item: &Item<'_>) -> Done {
    let message: v1::ModifyUserGroup = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = async {
        let id = known(item, message.id.as_ref())?;
        let name = text(message.name.as_ref());
        if !name.is_empty() {
            check_name(name, Code::InvalidParameter)?;
        }
        item.edit(IdentityKind::Group, id, |object| {
            let IdentityObject::Group(mut group) = object else { return Ok(object) };
            let changed = Arc::make_mut(&mut group);
            if !name.is_empty() {
                changed.head.name = name.into();
            }
            if let Some(comment) = &message.comment {
                changed.head.comment = comment.as_str().into();
            }
            if !message.metadata.is_empty() {
                changed.head.metadata = messages::metadata_of(&message.metadata);
            }
            changed.users.extend(members(message.add_relations.as_ref()));
            let removed = members(message.remove_relations.as_ref());
            changed.users.retain(|user| !removed.contains(user));
            Ok(IdentityObject::Group(group))
        })
        .await
    };
    let result = result.await;
    Done::new(result, v1::Response { modify_user_group: Some(message), ..Default::default() })
}

pub(super) async fn delete(item: &Item<'_>) -> Done {
    let message: v1::UserGroup = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = async {
        let id = text(message.id.as_ref());
        item.may(ResourceKind::UserGroup, id)?;
        item.known(IdentityKind::Group, id, "")?;
        item.delete(IdentityKind::Group, id).await
    };
    let result = result.await;
    Done::new(result, v1::Response { user_group: Some(message), ..Default::default() })
}

pub(super) async fn enable_token(item: &Item<'_>) -> Done {
    edit(item, |message, group| group.token.is_enabled = message.token_enable == Some(true)).await
}

pub(super) async fn reset_token(item: &Item<'_>) -> Done {
    let token = new_token();
    let mut done = edit(item, |_, group| group.token.text = token.as_str().into()).await;
    let is_done = done.failure.code.is_success();
    if let Some(group) = done.response.user_group.as_mut().filter(|_| is_done) {
        group.auth_token = Some(token);
    }
    done
}

async fn edit(
    item: &Item<'_>,
    change: impl Fn(&v1::UserGroup, &mut UserGroup) + Send + Sync,
) -> Done {
    let message: v1::UserGroup = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = async {
        let id = known(item, message.id.as_ref())?;
        item.edit(IdentityKind::Group, id, |object| {
            let IdentityObject::Group(mut group) = object else { return Ok(object) };
            change(&message, Arc::make_mut(&mut group));
            Ok(IdentityObject::Group(group))
        })
        .await
    };
    let result = result.await;
    let message = v1::UserGroup { auth_token: None, ..message };
    Done::new(result, v1::Response { user_group: Some(message), ..Default::default() })
}

/// Returns the id of a group that the caller may change.
fn known<'a>(item: &Item<'_>, id: Option<&'a String>) -> Result<&'a str, Failure> {
    let id = text(id);
    if id.is_empty() {
        return Err(Code::InvalidUserGroupID.into());
    }
    item.may(ResourceKind::UserGroup, id)?;
    Ok(id)
}

fn members(relation: Option<&v1::UserGroupRelation>) -> BTreeSet<Arc<str>> {
    let users = relation.into_iter().flat_map(|relation| &relation.users);
    users.filter_map(|user| user.id.as_deref()).map(Arc::from).collect()
}
