//! Calls for operators of the server: `connections` lists and closes connections of clients,
//! `process` has the log and what the process cannot do, `instances` the last heartbeat and the
//! clean-up, `clients` the reports of SDKs, `functions` the list of calls.

mod clients;
mod connections;
mod functions;
mod instances;
mod process;

use super::HttpApi;
use super::failure::Failure;
use super::intake::{CLIENT_BYTES_MAX, caller};
use super::intake::{NoBody, json_body, request_caller};
use super::language::Language;
use super::query::Query;
use super::reply::{RESPONSE, Reply, plain};
use super::route::{Route, Routes, get, post, put};
use crate::access::Door;
use crate::code::Code;
use crate::dialect::Caller;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Routes of all calls.
pub(super) fn routes() -> Routes {
    macro_rules! call {
        ($method:ident $handler:path) => {
            $method(|State(api): State<HttpApi>, request: Request| $handler(api, request))
        };
    }
    let log = call!(get process::log_level).merge(call!(put process::set_log_level));
    let routes: [(&str, Route); 14] = [
        ("apiserver/conn", call!(get connections::counts)),
        ("apiserver/conn/stats", call!(get connections::statistics)),
        ("apiserver/conn/close", call!(post connections::close)),
        ("memory/free", call!(post process::free_memory)),
        ("pprof/enable", call!(post process::enable_profiles)),
        ("log/outputlevel", log),
        ("leaders", nothing("DescribeLeaderElections")),
        ("leaders/release", call!(post process::release_leader)),
        ("cmdb/info", call!(get locations)),
        ("instance/clean", call!(post instances::clean)),
        ("instance/batchclean", call!(post instances::clean_many)),
        ("instance/heartbeat", call!(get instances::last_heartbeat)),
        ("report/clients", call!(get clients::reported)),
        ("server/functions", get(functions::functions)),
    ];
    let routes = routes.into_iter().fold(Routes::new(), |routes, (path, route)| {
        routes.route(&format!("/maintain/v1/{path}"), route)
    });
    routes.route("/core/v1/clients", call!(get clients::reported)).route(
        "/prometheus/v1/clients",
        get(|State(api): State<HttpApi>| clients::scrape_targets(api)),
    )
}

/// Lists the configured locations by network.
async fn locations(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    if let Err(failure) = read_query(&api, &request, "DescribeCMDBInfo", &[]) {
        return Reply::failure(RESPONSE, &failure).print(language);
    }
    let networks = api.dialect.locations().networks().iter();
    let shown: Value = networks
        .map(|it| {
            json!({
                "IP": it.network.to_string(),
                "Region": &*it.location.region,
                "Zone": &*it.location.zone,
                "Campus": &*it.location.campus,
            })
        })
        .collect();
    plain(StatusCode::OK, shown.to_string())
}

/// Answers an empty list to a caller with a token, because no node leads the others.
fn nothing(function: &'static str) -> Route {
    get(move |State(api): State<HttpApi>, request: Request| async move {
        let language = Language::wanted(request.uri(), request.headers());
        match read_query(&api, &request, function, &[]) {
            Ok(_) => plain(StatusCode::OK, "[]"),
            Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
        }
    })
}

/// Checks the caller, then parses the query.
fn read_query(
    api: &HttpApi,
    request: &Request,
    function: &'static str,
    keys: &[&str],
) -> Result<Query, Failure> {
    check(api, &request_caller(request), function)?;
    Query::parse(request.uri().query(), keys)
}

fn check(api: &HttpApi, caller: &Caller<'_>, function: &'static str) -> Result<(), Code> {
    api.dialect.rights(&api.registry().state(), Door::Console, caller).server(function)
}

/// Checks the caller, then reads the body.
///
/// # Errors
/// The answer, if the caller is refused or the body is not of this form.
async fn read_body<T: DeserializeOwned>(
    api: &HttpApi,
    request: Request,
    function: &'static str,
) -> Result<T, Box<Response<Body>>> {
    let (head, body) = request.into_parts();
    let language = Language::from_request(&head);
    let failed = |failure: &Failure| Box::new(Reply::failure(RESPONSE, failure).print(language));
    check(api, &caller(&head), function).map_err(|code| failed(&code.into()))?;
    let body = match json_body(&api.capacity, &head.headers, body, CLIENT_BYTES_MAX).await {
        Ok(body) => body,
        Err(NoBody::Refused(response)) => return Err(Box::new(response)),
        Err(NoBody::Failed(failure)) => return Err(failed(&failure)),
    };
    let read = serde_json::from_slice(&body.bytes);
    read.map_err(|error| failed(&Failure::with(Code::ParseException, error.to_string())))
}

/// Refuses a call that Polaris answers with a plain text.
fn refused(text: impl Into<Body>) -> Response<Body> {
    plain(StatusCode::BAD_REQUEST, text)
}
