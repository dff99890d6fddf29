//! Calls about users and their passwords.

use axum::http::Method;
use serde_json::Value;

use crate::admin::{Caller, Session, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::call::{Call, no_such_path};
use crate::clock;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;

/// Answers the calls about users. Returns `None` for every other path.
pub(super) async fn answer(
    session: Session<'_>,
    segments: &[&str],
    call: &Call,
) -> Option<Outcome> {
    let Session { admin, caller } = session;
    match (&call.method, segments) {
        (&Method::POST, ["dashboardUser"]) => Some(write(admin, clock::new_id(), call).await),
        (&Method::PUT, ["dashboardUser", "modify-password", id]) => {
            Some(modify_password(session, id, call).await)
        }
        (&Method::PUT, ["dashboardUser", id]) => Some(write(admin, (*id).to_owned(), call).await),
        (&Method::GET, ["dashboardUser", "check", "password"]) => {
            Some(check_password(admin, caller).await)
        }
        (&Method::GET, ["dashboardUser", id]) => Some(one(admin, id)),
        _ => None,
    }
}

async fn write(admin: &ShenyuAdmin, id: String, call: &Call) -> Outcome {
    let mut body: Row = call.object()?.clone();
    // `keptPassword` is only ever computed here, so a value from the client is dropped.
    body.remove("keptPassword");
    if let Some(password) = row::filled(&body, "password") {
        body.insert("keptPassword".to_owned(), admin.keep_password(password).await?.into());
    }
    let resource = Resource::find("dashboardUser").ok_or_else(no_such_path)?;
    let message = if call.method == Method::PUT { "update success" } else { "create success" };
    let must_exist = call.method == Method::PUT;
    admin
        .book
        .write(move |draft| {
            let before = draft.get(Table::User, &id);
            if must_exist && before.is_none() {
                return Err(Refusal::not_existed("user is not found"));
            }
            let made = resource.make_row(draft, &id, &body, before.as_deref())?;
            draft.put(Table::User, &id, made);
            success(message, 1)
        })
        .await
}

/// Answers with a user, the user's roles, and all roles that exist.
fn one(admin: &ShenyuAdmin, id: &str) -> Outcome {
    let tables = admin.book.read();
    let user = tables.get(Table::User, id);
    let user = user.ok_or_else(|| Refusal::error("user info is empty"))?;
    let role_ids = user.row.get("roles").map(row::texts).unwrap_or_default();
    let roles = || tables.rows(Table::Role).map(|(id, role)| (id, Value::Object((**role).clone())));
    let mine: Vec<Value> = roles()
        .filter(|(id, _)| role_ids.iter().any(|it| it == id))
        .map(|(_, role)| role)
        .collect();
    let all: Vec<Value> = roles().map(|(_, role)| role).collect();
    let mut view = (*user.row).clone();
    view.insert("password".to_owned(), "".into());
    view.insert("roles".to_owned(), mine.into());
    view.insert("allRoles".to_owned(), all.into());
    success("detail success", view)
}

/// Refuses if the caller still has the password of ShenYu's manual, because anyone may know it.
/// Consoles then ask for a new one.
async fn check_password(admin: &ShenyuAdmin, caller: &Caller) -> Outcome {
    const KNOWN: &str = "123456";
    let hash = row::text(&caller.user, "password").unwrap_or_default();
    if admin.is_right(KNOWN.to_owned(), hash).await? {
        return Err(Refusal::error(
            "the password is still the default one of ShenYu's admin; choose another",
        ));
    }
    success("success", Value::Null)
}

async fn modify_password(session: Session<'_>, id: &str, call: &Call) -> Outcome {
    let Session { admin, caller } = session;
    let body = call.object()?;
    if row::text(&caller.user, "id").as_deref() != Some(id) {
        return Err(Refusal::error("can't modify other user password"));
    }
    let missing = |field: &str| Refusal::invalid(field, "must not be null");
    let old = row::filled(body, "oldPassword").ok_or_else(|| missing("oldPassword"))?;
    let new = row::filled(body, "password").ok_or_else(|| missing("password"))?;
    let user = admin.book.read().get(Table::User, id).map(|stored| stored.row.clone());
    let user = user.ok_or_else(|| Refusal::not_existed("user is not found"))?;
    if !admin.is_right(old, row::text(&user, "password").unwrap_or_default()).await? {
        return Err(Refusal::error("the old password is not right"));
    }
    let hash = admin.keep_password(new).await?;
    let id = id.to_owned();
    admin
        .book
        .write(move |draft| {
            // Hashing takes a while, so the user is read again: the row may have changed or been
            // deleted.
            let user = draft.get(Table::User, &id);
            let mut user =
                (*user.ok_or_else(|| Refusal::not_existed("user is not found"))?).clone();
            user.insert("password".to_owned(), Value::from(hash.clone()));
            user.insert("dateUpdated".to_owned(), draft.now.clone().into());
            draft.put(Table::User, &id, user);
            success("update success", 1)
        })
        .await
}
