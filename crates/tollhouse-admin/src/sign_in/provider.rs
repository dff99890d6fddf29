//! Log-in of people at an identity provider (OpenID Connect).
//!
//! The page asks for the provider's address with `POST /console/v1/login/openid`, and is given a
//! cookie with it. The provider sends the browser back to `/ui/login` with a code, and the page
//! sends the code with `POST /console/v1/login`, as it would a key. Both calls are refused to other
//! websites.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use hyper::StatusCode;
use hyper::header::SET_COOKIE;
use serde::Deserialize;
use serde_json::json;
use tollhouse_plugins::code_flow::{CodeAnswer, CodeFlowError, Now};

use super::accounts::NotAdmitted;
use super::pending::PendingLogIn;
use super::{too_many, value};
use crate::auth;
use crate::call::Call;
use crate::context::Admin;
use crate::log_in::ProviderLogIn;
use crate::people::Person;
use crate::reply::Reply;
use crate::session::{Encryption, KeyHolder, Sessions};

/// Path to which the provider sends browsers back, below the address of the console.
const REDIRECT_PATH: &str = "/ui/login";

/// Parameters with which the provider has sent the browser back.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Return {
    state: String,
    #[serde(default)]
    code: String,
    iss: Option<String>,
    error: Option<String>,
    #[serde(default)]
    error_description: String,
}

impl ProviderLogIn {
    fn now(&self) -> Now {
        let ms = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Now::new(ms, auth::now_s())
    }

    /// Returns the address to which the provider sends the browser of a call.
    fn redirect_uri(&self, sessions: &Sessions, call: &Call) -> Result<String, Reply> {
        if let Some(url) = &self.public_url {
            return Ok(format!("{}{REDIRECT_PATH}", url.trim_end_matches('/')));
        }
        let host = call.header("host").unwrap_or_default();
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
        if host.is_empty() || !host.bytes().all(is_host) {
            return Err(Reply::bad(
                "the header Host is not a host; set admin.openid_connect.public_url",
            ));
        }
        let scheme = match sessions.encryption() {
            Encryption::Tls => "https",
            Encryption::Off => "http",
        };
        Ok(format!("{scheme}://{host}{REDIRECT_PATH}"))
    }

    fn refusal(&self, error: CodeFlowError) -> Reply {
        match error {
            CodeFlowError::Unavailable(reason) => {
                let limit = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(suppressed) = limit.admit(Instant::now()) {
                    tracing::warn!(reason, suppressed, "log-ins at the identity provider fail");
                }
                let text = "the identity provider gives no usable answer; try again, or sign in with a key. The reason \
                            is in the log of the gateway";
                Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text)
            }
            CodeFlowError::Refused(reason) => {
                let text = format!("the log-in is refused: {reason}; log in again");
                Reply::refusal(StatusCode::UNAUTHORIZED, text)
            }
        }
    }
}

/// Begins a log-in: returns the address of the provider, with a cookie.
pub(super) async fn begin(admin: &Admin, call: &Call) -> Result<Reply, Reply> {
    super::check_page(call)?;
    let (log_in, sessions) = configured(admin)?;
    let redirect_uri = log_in.redirect_uri(sessions, call)?;
    let begun = PendingLogIn::begin(sessions, call, redirect_uri, auth::now_s());
    let (pending, line) =
        begun.map_err(|_| Reply::unavailable("no random numbers are available"))?;
    let _waiting = log_in.waiting.try_acquire().map_err(|_| busy())?;
    let address = log_in.flow.address(pending.attempt(), log_in.now()).await;
    let address = address.map_err(|error| log_in.refusal(error))?;
    Ok(Reply::json(StatusCode::OK, &json!({ "location": address })).with(SET_COOKIE, value(&line)?))
}

/// Completes a log-in, and returns the user.
pub(super) async fn complete(
    admin: &Admin,
    call: &Call,
    sent: &Return,
) -> Result<KeyHolder<'static>, Reply> {
    let (log_in, sessions) = configured(admin)?;
    let registry = admin.parts.options.people.as_ref().ok_or_else(|| {
        let text = "users are kept in the registry, which is not running; sign in with a key, and see the log of the \
                    gateway";
        Reply::unavailable(text)
    })?;
    if !admin.failures.may_try(call.peer.ip()) {
        return Err(too_many());
    }
    let (redirect_uri, now_s) = (log_in.redirect_uri(sessions, call)?, auth::now_s());
    let pending = PendingLogIn::find(sessions, call, &sent.state, redirect_uri, now_s);
    let unknown =
        "this browser did not begin the log-in, or it took longer than ten minutes; log in again";
    let unauthorized = |text: &str| Reply::refusal(StatusCode::UNAUTHORIZED, text);
    let pending = pending.ok_or_else(|| unauthorized(unknown))?;
    let _waiting = log_in.waiting.try_acquire().map_err(|_| busy())?;
    if !admin.used_log_ins.take(&pending, now_s) {
        return Err(unauthorized("this log-in has been used already; log in again"));
    }
    let error = sent.error.as_deref().map(|error| (error, &*sent.error_description));
    let answer = CodeAnswer { code: &sent.code, issuer: sent.iss.as_deref(), error };
    let claims = log_in.flow.claims(answer, pending.attempt(), log_in.now()).await;
    let claims = claims.map_err(|error| {
        if matches!(error, CodeFlowError::Refused(_)) {
            admin.failures.failed(call.peer.ip());
        }
        log_in.refusal(error)
    })?;
    let user =
        log_in.rules.admit(registry, &claims).await.map_err(|refused| not_admitted(&refused))?;
    let person = Person::from_user(&user)
        .ok_or_else(|| not_admitted(&NotAdmitted::Disabled(Arc::clone(&user.head.name))))?;
    Ok(KeyHolder::Person(person))
}

/// Returns the `Set-Cookie` line that ends a log-in of a call, whether it was completed or not.
pub(super) fn end_line(admin: &Admin, call: &Call) -> Option<String> {
    let (log_in, sessions) = configured(admin).ok()?;
    let redirect_uri = log_in.redirect_uri(sessions, call).ok()?;
    Some(PendingLogIn::end_line(sessions, call, &redirect_uri))
}

fn configured(admin: &Admin) -> Result<(&ProviderLogIn, &Sessions), Reply> {
    let options = &admin.parts.options;
    let (Some(log_in), Some(sessions)) = (&options.log_in, &options.sessions) else {
        let text =
            "no identity provider is configured; see admin.openid_connect in the bootstrap file";
        return Err(Reply::refusal(StatusCode::NOT_FOUND, text));
    };
    Ok((log_in, sessions))
}

fn not_admitted(refused: &NotAdmitted) -> Reply {
    let status = match refused {
        NotAdmitted::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
        NotAdmitted::Unknown
        | NotAdmitted::Group
        | NotAdmitted::Domain
        | NotAdmitted::Disabled(_) => StatusCode::FORBIDDEN,
    };
    Reply::refusal(status, refused.to_string())
}

fn busy() -> Reply {
    let text = "too many people log in at the moment; try again in a few seconds";
    Reply::refusal(StatusCode::SERVICE_UNAVAILABLE, text)
}
