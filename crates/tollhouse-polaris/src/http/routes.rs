//! Paths of the HTTP API.

use super::HttpApi;
use super::client::{self, ClientCall, REQUEST_ID};
use super::config;
use super::console::rules::{self, Calls};
use super::console::{self, Get, List, Write, aliases, contracts, instances, namespaces, services};
use super::reply::plain;
use super::route::{Route, Routes, get, post, put};
use super::{deprecated, identity, login, maintain, websites};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderMap, Response, StatusCode};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use serde_json::{Map, Value, json};

/// Text at `/`, by which load balancers and operators see that the server is up.
const ROOT: &str = "tollhouse registry";
const REQUEST_ID_HEADER: HeaderName = HeaderName::from_static(REQUEST_ID);

/// Builds the router of all HTTP calls.
pub fn router(api: HttpApi) -> Router {
    routes()
        .into_router()
        .fallback(|| async { plain(StatusCode::NOT_FOUND, "404: no such path") })
        .layer(from_fn_with_state(api.clone(), websites::refuse))
        .layer(from_fn(echo_request_id))
        .with_state(api)
}

/// Returns the methods and paths of all calls.
pub(crate) fn calls() -> Vec<(&'static str, String)> {
    let routes = routes();
    routes.calls().map(|(method, path)| (method, path.to_owned())).collect()
}

/// Returns the routes of all HTTP calls.
fn routes() -> Routes {
    client_routes()
        .merge(namespace_routes())
        .merge(service_routes())
        .merge(instance_routes())
        .merge(rule_routes())
        .merge(config_routes())
        .merge(identity::routes())
        .merge(deprecated::routes())
        .merge(maintain::routes())
        .merge(other_routes())
}

/// Returns the request id of a call with its answer.
async fn echo_request_id(request: Request, next: Next) -> Response<Body> {
    let id = request.headers().get(REQUEST_ID_HEADER).cloned();
    let mut response = next.run(request).await;
    if let Some(id) = id {
        response.headers_mut().insert(REQUEST_ID_HEADER, id);
    }
    response
}

fn client_routes() -> Routes {
    let route = |call: ClientCall| -> Route {
        post(move |State(api): State<HttpApi>, request: Request| client::call(api, call, request))
    };
    Routes::new()
        .route("/v1/ReportClient", route(ClientCall::ReportClient))
        .route("/v1/RegisterInstance", route(ClientCall::RegisterInstance))
        .route("/v1/DeregisterInstance", route(ClientCall::DeregisterInstance))
        .route("/v1/Heartbeat", route(ClientCall::Heartbeat))
        .route("/v1/Discover", route(ClientCall::Discover))
}

fn namespace_routes() -> Routes {
    let mut router = Routes::new();
    for root in ["/core/v1/namespaces", "/naming/v1/namespaces"] {
        let all = list(&namespaces::LIST)
            .merge(post_list(&namespaces::CREATE))
            .merge(put_list(&namespaces::UPDATE));
        let token = one(&namespaces::GET_TOKEN).merge(put_list(&namespaces::RENEW_TOKEN));
        router = router
            .route(root, all)
            .route(&format!("{root}/delete"), post_list(&namespaces::DELETE))
            .route(&format!("{root}/token"), token);
    }
    // The older form, which takes one namespace instead of a list.
    let token = one(&namespaces::GET_TOKEN).merge(put_one(&namespaces::RENEW_TOKEN));
    router.route("/naming/v1/namespace/token", token)
}

fn service_routes() -> Routes {
    let all = list(&services::LIST)
        .merge(post_list(&services::CREATE))
        .merge(put_list(&services::UPDATE));
    let owner =
        one(&services::GET_OWNER).merge(post(|State(api): State<HttpApi>, request: Request| {
            console::owners::find_owners(api, request)
        }));
    let alias = post_one(&aliases::CREATE).merge(put_one(&aliases::UPDATE));
    Routes::new()
        .route("/naming/v1/services", all)
        .route("/naming/v1/services/delete", post_list(&services::DELETE))
        .route("/naming/v1/services/all", list(&services::ALL))
        .route("/naming/v1/services/count", list(&services::COUNT))
        .route(
            "/naming/v1/service/token",
            one(&services::GET_TOKEN).merge(put_one(&services::RENEW_TOKEN)),
        )
        .route("/naming/v1/service/owner", owner)
        .route("/naming/v1/service/alias", alias)
        .route("/naming/v1/service/aliases", list(&aliases::LIST))
        .route("/naming/v1/service/aliases/delete", post_list(&aliases::DELETE))
        .route(
            "/naming/v1/service/contracts",
            list(&contracts::LIST).merge(post_list(&contracts::CREATE)),
        )
        .route("/naming/v1/service/contract/methods", post_one(&contracts::SET_INTERFACES))
        .route("/naming/v1/service/contract/methods/append", put_one(&contracts::APPEND_INTERFACES))
        .route(
            "/naming/v1/service/contract/methods/delete",
            post_one(&contracts::DELETE_INTERFACES),
        )
        .route("/naming/v1/service/contracts/delete", post_list(&contracts::DELETE))
        .route("/naming/v1/service/contract/versions", list(&contracts::LIST))
}

fn instance_routes() -> Routes {
    let all = list(&instances::LIST)
        .merge(post_list(&instances::CREATE))
        .merge(put_list(&instances::UPDATE));
    Routes::new()
        .route("/naming/v1/instances", all)
        .route("/naming/v1/instances/delete", post_list(&instances::DELETE))
        .route("/naming/v1/instances/delete/host", post_list(&instances::DELETE_HOST))
        .route("/naming/v1/instances/isolate/host", put_list(&instances::ISOLATE_HOST))
        .route("/naming/v1/instances/count", list(&instances::COUNT))
        .route("/naming/v1/instances/labels", one(&instances::LABELS))
}

fn rule_routes() -> Routes {
    let kinds: [(&str, &'static Calls); 10] = [
        ("/naming/v1/routings", &rules::ROUTINGS_V1),
        ("/naming/v2/routings", &rules::ROUTE_RULES),
        ("/naming/v1/ratelimits", &rules::RATE_LIMIT_RULES),
        ("/naming/v1/circuitbreaker/rules", &rules::CIRCUIT_BREAKERS),
        ("/naming/v1/faultdetectors", &rules::FAULT_DETECTORS),
        ("/naming/v1/lane/groups", &rules::LANE_GROUPS),
        ("/naming/v1/lossless/rules", &rules::LOSSLESS_RULES),
        ("/naming/v1/blockallow/rules", &rules::BLOCK_ALLOW_RULES),
        ("/naming/v1/trafficmirroring/rules", &rules::TRAFFIC_MIRRORINGS),
        ("/naming/v1/faultinjection/rules", &rules::FAULT_INJECTIONS),
    ];
    kinds.into_iter().fold(Routes::new(), |router, (root, calls)| {
        let all = list(&calls.list).merge(post_list(&calls.create)).merge(put_list(&calls.update));
        router
            .route(root, all)
            .route(&format!("{root}/delete"), post_list(&calls.delete))
            .route(&format!("{root}/enable"), put_list(&calls.enable))
    })
}

fn config_routes() -> Routes {
    let mut router = config::routes();
    for root in ["/v1", "/config/v1"] {
        let route = |call: ClientCall| -> Route {
            post(move |State(api): State<HttpApi>, request: Request| {
                client::call(api, call, request)
            })
        };
        let file =
            get(|State(api): State<HttpApi>, request: Request| client::config_file(api, request));
        router = router
            .route(&format!("{root}/GetConfigFile"), file)
            .route(&format!("{root}/WatchConfigFile"), route(ClientCall::WatchConfigFile))
            .route(&format!("{root}/GetConfigFileMetadataList"), route(ClientCall::ListConfigFiles))
            .route(&format!("{root}/ConfigDiscover"), route(ClientCall::DiscoverConfig));
    }
    router
}

fn other_routes() -> Routes {
    Routes::new()
        .route("/", get(|| async { plain(StatusCode::OK, ROOT) }))
        .route("/metrics", get(|State(api): State<HttpApi>| async move { metrics(&api) }))
        .route("/apidocs.json", get(async || json(&call_list())))
        .route(
            login::LOG_IN,
            post(|State(api): State<HttpApi>, request: Request| login::log_in(api, request)),
        )
        .route(
            "/core/v1/auth/status",
            get(|State(api): State<HttpApi>, request: Request| login::status(api, request)),
        )
}

/// Returns the list of all calls as a document of Swagger 2.0, which Polaris' console reads for its
/// statistics by interface.
fn call_list() -> Value {
    let mut paths = Map::new();
    for (method, path) in calls() {
        let group = path.split('/').nth(1).unwrap_or_default();
        let entry = json!({ "summary": format!("{method} {path}"), "tags": [group] });
        let methods = paths.entry(path).or_insert_with(|| json!({}));
        methods[method.to_ascii_lowercase()] = entry;
    }
    let info = json!({ "title": "Polaris", "version": env!("CARGO_PKG_VERSION") });
    json!({ "swagger": "2.0", "info": info, "paths": paths })
}

fn json(value: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(value.to_string()));
    response.headers_mut().insert(
        axum::http::header::CONTENT_TYPE,
        axum::http::HeaderValue::from_static("application/json"),
    );
    response
}

fn metrics(api: &HttpApi) -> Response<Body> {
    let mut headers = HeaderMap::new();
    headers.insert(
        axum::http::header::CONTENT_TYPE,
        axum::http::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8"),
    );
    let mut response = Response::new(Body::from((api.metrics)()));
    *response.headers_mut() = headers;
    response
}

fn list(call: &'static List) -> Route {
    get(move |State(api): State<HttpApi>, request: Request| console::list(api, call, request))
}

fn one(call: &'static Get) -> Route {
    get(move |State(api): State<HttpApi>, request: Request| console::get(api, call, request))
}

fn post_list(call: &'static Write) -> Route {
    post(move |State(api): State<HttpApi>, request: Request| console::write(api, call, request))
}

fn put_list(call: &'static Write) -> Route {
    put(move |State(api): State<HttpApi>, request: Request| console::write(api, call, request))
}

fn post_one(call: &'static Write) -> Route {
    post(move |State(api): State<HttpApi>, request: Request| console::write_one(api, call, request))
}

fn put_one(call: &'static Write) -> Route {
    put(move |State(api): State<HttpApi>, request: Request| console::write_one(api, call, request))
}
