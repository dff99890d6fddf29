//! Users, their passwords, and what consoles ask about rights.

use axum::http::Method;
use serde_json::{Value, json};

use super::Call;
use crate::admin::{Caller, ShenyuAdmin};
use crate::answer::{Outcome, Refusal, success};
use crate::clock;
use crate::resource::Resource;
use crate::row::{self, Row};
use crate::table::Table;

/// Answers what is about users; `None` for everything else.
pub(super) async fn answer(
    admin: &ShenyuAdmin,
    caller: &Caller,
    segments: &[&str],
    call: &Call,
) -> Option<Outcome> {
    match (&call.method, segments) {
        (&Method::POST, ["dashboardUser"]) => Some(write(admin, clock::new_id(), call).await),
        (&Method::PUT, ["dashboardUser", "modify-password", id]) => {
            Some(modify_password(admin, id, call).await)
        }
        (&Method::PUT, ["dashboardUser", id]) => Some(write(admin, (*id).to_owned(), call).await),
        (&Method::GET, ["permission", "getUserPermissionByToken"]) => {
            let data = json!({"currentAuth": [], "menu": [], "userName": row::text(&caller.user, "userName")});
            Some(success("query success", data))
        }
        (&Method::GET, ["resource", ..] | ["data-permission", ..]) => {
            Some(success("query success", json!([])))
        }
        _ => None,
    }
}

async fn write(admin: &ShenyuAdmin, id: String, call: &Call) -> Outcome {
    let mut body: Row = call.object()?.clone();
    // Only what is derived here is kept.
    body.remove("keptPassword");
    if let Some(password) = row::filled(&body, "password") {
        body.insert("keptPassword".to_owned(), admin.keep_password(password).await?.into());
    }
    let resource = Resource::find("dashboardUser").ok_or_else(super::no_such_path)?;
    let message = if call.method == Method::PUT { "update success" } else { "create success" };
    let must_exist = call.method == Method::PUT;
    admin
        .book
        .write(move |draft| {
            let before = draft.get(Table::User, &id);
            if must_exist && before.is_none() {
                return Err(Refusal::not_found("there is no such object"));
            }
            let made = resource.make_row(draft, &id, &body, before.as_deref())?;
            draft.put(Table::User, &id, made);
            success(message, 1)
        })
        .await
}

async fn modify_password(admin: &ShenyuAdmin, id: &str, call: &Call) -> Outcome {
    let body = call.object()?;
    let missing = |field: &str| Refusal::invalid(field, "must not be null");
    let old = row::filled(body, "oldPassword").ok_or_else(|| missing("oldPassword"))?;
    let new = row::filled(body, "password").ok_or_else(|| missing("password"))?;
    let user = admin.book.read().get(Table::User, id).map(|stored| stored.row.clone());
    let user = user.ok_or_else(|| Refusal::not_found("there is no such object"))?;
    if !admin.is_right(old, row::text(&user, "password").unwrap_or_default()).await {
        return Err(Refusal::error("the old password is not right"));
    }
    let kept = admin.keep_password(new).await?;
    let id = id.to_owned();
    admin
        .book
        .write(move |draft| {
            let user = draft.get(Table::User, &id);
            let mut user =
                (*user.ok_or_else(|| Refusal::not_found("there is no such object"))?).clone();
            user.insert("password".to_owned(), Value::from(kept.clone()));
            user.insert("dateUpdated".to_owned(), draft.now.clone().into());
            draft.put(Table::User, &id, user);
            success("update success", 1)
        })
        .await
}
