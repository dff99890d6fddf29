//! Users: created, changed, deleted; their passwords and tokens.

use std::sync::Arc;

use tollhouse_registry::identity::{
    AccessToken, IdentityKind, IdentityObject, IdentityWrite as Change, Principal, ResourceKind,
    User,
};

use super::super::messages;
use super::{Done, Item, new_id, text};
use crate::access::{PASSWORD_MEMORY_BYTES, check_password, is_password, new_hash, new_token};
use crate::code::Code;
use crate::failure::Failure;
use crate::v1;

/// Maximum length of a user's name in characters, as in Polaris.
const NAME_CHARS_MAX: usize = 64;

pub(super) async fn create(item: &Item<'_>) -> Done {
    let mut message: v1::User = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = try_create(item, &message).await;
    message.password = None;
    message.owner = Some(String::new());
    let result = result.map(|id| message.id = Some(id));
    Done::new(result, v1::Response { user: Some(message), ..Default::default() })
}

async fn try_create(item: &Item<'_>, message: &v1::User) -> Result<String, Failure> {
    item.may_create()?;
    let name = text(message.name.as_ref());
    check_name(name, Code::InvalidUserName)?;
    let password = text(message.password.as_ref());
    check_password(password)?;
    check_contact(message)?;
    let is_taken = item.api.registry().state().user_named(name).is_some();
    if is_taken || name == item.account_name() {
        return Err(Code::UserExisted.into());
    }
    let password = password.to_owned();
    let held = item.api.capacity.hold(PASSWORD_MEMORY_BYTES).await?;
    let password = item.api.capacity.work(move || new_hash(&password)).await?;
    drop(held);
    let id = new_id();
    let mut head = messages::new_head(id.clone(), message.name.as_ref(), item.account_name());
    head.comment = text(message.comment.as_ref()).into();
    head.metadata = messages::metadata_of(&message.metadata);
    if let Some(source) = message.source.as_deref().filter(|source| !source.is_empty()) {
        head.source = source.into();
    }
    let user = User {
        head,
        mobile: text(message.mobile.as_ref()).into(),
        email: text(message.email.as_ref()).into(),
        password,
        token: AccessToken { text: new_token().into(), is_enabled: true },
    };
    let policy = item.own_policy(Principal::user(&id), name);
    let changes = vec![Change::Create(user.into()), Change::Create(policy.into())];
    match item.write(changes).await {
        Err(failure) if failure.code == Code::ExistedResource => Err(Code::UserExisted.into()),
        done => done.map(|()| id),
    }
}

pub(super) async fn delete(item: &Item<'_>) -> Done {
    let message: v1::User = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let id = text(message.id.as_ref()).to_owned();
    let result = async {
        item.may(ResourceKind::User, &id)?;
        item.known(IdentityKind::User, &id, item.account_name())?;
        let is_own = item.member() == Some(Principal::user(&id));
        if id == item.account_name() || is_own {
            return Err(Code::NotAllowedAccess.into());
        }
        item.delete(IdentityKind::User, &id).await
    };
    let result = result.await;
    let message = v1::User { password: None, auth_token: None, ..message };
    Done::new(result, v1::Response { user: Some(message), ..Default::default() })
}

pub(super) async fn update(item: &Item<'_>) -> Done {
    edit(item, |message, user| {
        let head = &mut user.head;
        if let Some(comment) = &message.comment {
            head.comment = comment.as_str().into();
        }
        if let Some(mobile) = &message.mobile {
            user.mobile = mobile.as_str().into();
        }
        if let Some(email) = &message.email {
            user.email = email.as_str().into();
        }
        if !message.metadata.is_empty() {
            head.metadata = messages::metadata_of(&message.metadata);
        }
    })
    .await
}

pub(super) async fn enable_token(item: &Item<'_>) -> Done {
    edit(item, |message, user| user.token.is_enabled = message.token_enable == Some(true)).await
}

pub(super) async fn reset_token(item: &Item<'_>) -> Done {
    let token = new_token();
    let mut done = edit(item, |_, user| user.token.text = token.as_str().into()).await;
    if let Some(user) = done.response.user.as_mut().filter(|_| done.failure.code.is_success()) {
        user.auth_token = Some(token);
    }
    done
}

/// Changes a stored user.
async fn edit(item: &Item<'_>, change: impl Fn(&v1::User, &mut User) + Send + Sync) -> Done {
    let message: v1::User = match item.decode() {
        Ok(message) => message,
        Err(failure) => return failure.into(),
    };
    let result = async {
        let id = text(message.id.as_ref());
        if id.is_empty() {
            return Err(Code::BadRequest.into());
        }
        item.may(ResourceKind::User, id)?;
        check_configured(item, id)?;
        check_contact(&message)?;
        item.edit(IdentityKind::User, id, |object| {
            let IdentityObject::User(mut user) = object else { return Ok(object) };
            change(&message, Arc::make_mut(&mut user));
            Ok(IdentityObject::User(user))
        })
        .await
    };
    let result = match result.await {
        // As in Polaris, whose console takes any other code for a failure.
        Err(failure) if failure.code == Code::NoNeedUpdate => Ok(()),
        result => result,
    };
    let message = v1::User { password: None, auth_token: None, ..message };
    Done::new(result, v1::Response { user: Some(message), ..Default::default() })
}

pub(super) async fn update_password(item: &Item<'_>) -> Done {
    let result = async {
        let message: v1::ModifyUserPassword = item.decode()?;
        let id = text(message.id.as_ref());
        item.may(ResourceKind::User, id)?;
        check_configured(item, id)?;
        let user = item.api.registry().state().user(id).cloned();
        let user = user.ok_or(Code::NotFoundUser)?;
        let new = text(message.new_password.as_ref()).to_owned();
        check_password(&new)?;
        let held = item.api.capacity.hold(PASSWORD_MEMORY_BYTES).await?;
        // Users who set a password must know the old one, so that a token is not enough to take an
        // account over for good.
        if !item.is_account() {
            let old = text(message.old_password.as_ref()).to_owned();
            // Guesses are limited as those of a login are.
            let peer = item.caller.address;
            if peer.is_some_and(|peer| !item.api.logins.may_try(peer)) {
                return Err(Code::IPRateLimit.into());
            }
            let stored = user.password.clone();
            let is_known = move || is_password(&old, Some(&stored));
            let is_known = item.api.capacity.work(is_known).await?;
            match (peer, is_known) {
                (Some(peer), true) => item.api.logins.succeeded(peer),
                (Some(peer), false) => item.api.logins.failed(peer),
                (None, _) => {}
            }
            if !is_known {
                return Err(Failure::with(Code::NotAllowedAccess, "the old password is wrong"));
            }
        }
        let hash = item.api.capacity.work(move || new_hash(&new)).await?;
        drop(held);
        item.edit(IdentityKind::User, id, |object| {
            let IdentityObject::User(mut user) = object else { return Ok(object) };
            Arc::make_mut(&mut user).password = hash.clone();
            Ok(IdentityObject::User(user))
        })
        .await
    };
    Done::new(result.await, v1::Response::default())
}

/// Refuses changes of the account of the bootstrap file.
fn check_configured(item: &Item<'_>, id: &str) -> Result<(), Failure> {
    if id == item.account_name() {
        let text = "this account is in the bootstrap file: see registry.user, password and token";
        return Err(Failure::with(Code::NotAllowedAccess, text));
    }
    Ok(())
}

/// Checks a name as Polaris does: Chinese and Latin letters, digits, `_`, `-` and `.`.
pub(super) fn check_name(name: &str, code: Code) -> Result<(), Failure> {
    let is_good = |letter: char| {
        letter.is_ascii_alphanumeric()
            || ['_', '-', '.'].contains(&letter)
            || ('\u{4e00}'..='\u{9fa5}').contains(&letter)
    };
    let length = name.chars().count();
    if (1..=NAME_CHARS_MAX).contains(&length) && name.chars().all(is_good) {
        return Ok(());
    }
    Err(code.into())
}

fn check_contact(message: &v1::User) -> Result<(), Failure> {
    let email = text(message.email.as_ref());
    let is_address = email.split_once('@').is_some_and(|(name, host)| {
        !name.is_empty() && host.contains('.') && !email.chars().any(char::is_whitespace)
    });
    if !email.is_empty() && !is_address {
        return Err(Code::InvalidUserEmail.into());
    }
    let mobile = text(message.mobile.as_ref());
    let is_number = mobile.bytes().all(|byte| byte.is_ascii_digit() || b"+- ".contains(&byte));
    if !mobile.is_empty() && !is_number {
        return Err(Code::InvalidUserMobile.into());
    }
    Ok(())
}
