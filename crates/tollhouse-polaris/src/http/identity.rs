//! The console's calls for users, groups, roles and policies: `write` has the changes, `read` the
//! lists and single objects, `messages` the forms of both.

mod messages;
mod read;
mod write;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::Response;
use serde_json::json;

use super::HttpApi;
use super::console;
use super::intake::request_caller;
use super::language::Language;
use super::reply::{RESPONSE, Reply, plain};
use super::route::{Route, Routes, get, post, put};
use crate::access::Door;
use read::IdentityRead;
use write::IdentityWrite;

/// Name of the call that lists rehearsed refusals, as policies name it.
const DESCRIBE_REHEARSAL: &str = "DescribeAuthRehearsal";

/// Routes of all calls.
pub(super) fn routes() -> Routes {
    use IdentityWrite as W;
    let routes = [
        ("users", list(&read::USERS).merge(post_call(W::CreateUsers))),
        ("users/delete", post_call(W::DeleteUsers)),
        ("user", put_call(W::UpdateUser)),
        ("user/password", put_call(W::UpdatePassword)),
        ("user/token", list(&read::USER_TOKEN)),
        ("user/token/status", put_call(W::EnableUserToken)),
        ("user/token/refresh", put_call(W::ResetUserToken)),
        ("usergroup", post_call(W::CreateGroup)),
        ("usergroups", list(&read::GROUPS).merge(put_call(W::UpdateGroups))),
        ("usergroups/delete", post_call(W::DeleteGroups)),
        ("usergroup/detail", list(&read::GROUP)),
        ("usergroup/token", list(&read::GROUP_TOKEN)),
        ("usergroup/token/status", put_call(W::EnableGroupToken)),
        ("usergroup/token/refresh", put_call(W::ResetGroupToken)),
        ("auth/strategy", post_call(W::CreatePolicy)),
        ("auth/strategy/detail", list(&read::POLICY)),
        ("auth/strategies", list(&read::POLICIES).merge(put_call(W::UpdatePolicies))),
        ("auth/strategies/delete", post_call(W::DeletePolicies)),
        ("auth/principal/resources", list(&read::PRINCIPAL_RESOURCES)),
        (
            "roles",
            list(&read::ROLES).merge(post_call(W::CreateRoles)).merge(put_call(W::UpdateRoles)),
        ),
        ("roles/delete", post_call(W::DeleteRoles)),
        (
            "auth/rehearsal",
            get(|State(api): State<HttpApi>, request: Request| rehearsal(api, request)),
        ),
    ];
    routes.into_iter().fold(Routes::new(), |router, (path, route)| {
        router.route(&format!("/core/v1/{path}"), route)
    })
}

fn post_call(call: IdentityWrite) -> Route {
    post(move |State(api): State<HttpApi>, request: Request| write::answer(api, call, request))
}

fn put_call(call: IdentityWrite) -> Route {
    put(move |State(api): State<HttpApi>, request: Request| write::answer(api, call, request))
}

fn list(call: &'static IdentityRead) -> Route {
    get(move |State(api): State<HttpApi>, request: Request| {
        let read =
            console::ReadCall { message: call.message, function: call.function, keys: call.keys };
        let dialect = api.dialect.clone();
        let identity = dialect.identify(&api.registry().state(), &request_caller(&request));
        console::read(api, read, request, move |state, query| {
            let reader = read::Reader { access: dialect.access(), state, identity: &identity };
            let fields = (call.find)(&reader, query)?;
            Ok(Reply::success(call.message, |out| out.extend_from_slice(&fields)))
        })
    })
}

/// Lists what locked gates would have refused in the last day, by caller.
async fn rehearsal(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let caller = request_caller(&request);
    let admitted = {
        let state = api.registry().state();
        api.dialect.rights(&state, Door::Console, &caller).server(DESCRIBE_REHEARSAL)
    };
    if let Err(code) = admitted {
        return Reply::failure(RESPONSE, &code.into()).print(language);
    }
    let access = api.dialect.access();
    let (entries, dropped) = access.rehearsal().list(api.registry().now_ms());
    let gate = |door| format!("{:?}", access.configured_gate(door)).to_lowercase();
    let refused = entries.iter().map(|(call, times)| {
        json!({
            "caller": call.caller,
            "function": call.function,
            "resource": call.resource,
            "code": call.code,
            "count": times.count,
            "first_ms": times.first_ms,
            "last_ms": times.last_ms,
        })
    });
    let refused: Vec<_> = refused.collect();
    let text = json!({
        "client": gate(Door::Client),
        "console": gate(Door::Console),
        "refused": refused,
        "dropped": dropped,
    });
    plain(axum::http::StatusCode::OK, text.to_string())
}
