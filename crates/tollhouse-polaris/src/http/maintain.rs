//! Calls for those who run the server.

use super::HttpApi;
use super::failure::Failure;
use super::intake::token;
use super::query::Query;
use super::reply::{RESPONSE, Reply, plain};
use crate::code::Code;
use crate::json;
use crate::schema::descriptors;
use crate::v1;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use prost::Message;
use serde_json::{Value, json};

/// `StatInfo.target` of metrics that Prometheus scrapes.
const SCRAPER: &str = "prometheus";

/// What the server can do, by group; consoles show or hide their pages by it.
const FUNCTIONS: &[(&str, &[&str])] = &[
    (
        "Namespace",
        &["CreateNamespaces", "DeleteNamespaces", "UpdateNamespaces", "DescribeNamespaces"],
    ),
    (
        "Service",
        &[
            "CreateServices",
            "DeleteServices",
            "UpdateServices",
            "DescribeAllServices",
            "DescribeServices",
            "DescribeServicesCount",
            "CreateServiceAlias",
            "DeleteServiceAliases",
            "UpdateServiceAlias",
            "DescribeServiceAliases",
        ],
    ),
    (
        "Instance",
        &[
            "CreateInstances",
            "DeleteInstances",
            "DeleteInstancesByHost",
            "UpdateInstances",
            "UpdateInstancesIsolate",
            "DescribeInstances",
            "DescribeInstancesCount",
            "DescribeInstanceLabels",
        ],
    ),
    (
        "RouteRule",
        &[
            "CreateRouteRules",
            "DeleteRouteRules",
            "UpdateRouteRules",
            "EnableRouteRules",
            "DescribeRouteRules",
        ],
    ),
    (
        "RateLimitRule",
        &[
            "CreateRateLimitRules",
            "DeleteRateLimitRules",
            "UpdateRateLimitRules",
            "EnableRateLimitRules",
            "DescribeRateLimitRules",
        ],
    ),
    (
        "CircuitBreakerRule",
        &[
            "CreateCircuitBreakerRules",
            "DeleteCircuitBreakerRules",
            "EnableCircuitBreakerRules",
            "UpdateCircuitBreakerRules",
            "DescribeCircuitBreakerRules",
        ],
    ),
    (
        "FaultDetectRule",
        &[
            "CreateFaultDetectRules",
            "DeleteFaultDetectRules",
            "UpdateFaultDetectRules",
            "DescribeFaultDetectRules",
        ],
    ),
    (
        "LaneRule",
        &["CreateLaneGroups", "DeleteLaneGroups", "UpdateLaneGroups", "DescribeLaneGroups"],
    ),
    (
        "Client",
        &["RegisterInstance", "DeregisterInstance", "ReportServiceContract", "DiscoverInstances"],
    ),
];

/// What the server can do. Needs no token: it is asked for before anybody logs in.
pub(super) async fn functions() -> Response<Body> {
    let groups: Vec<Value> = FUNCTIONS
        .iter()
        .map(|(name, functions)| json!({"name": name, "functions": functions}))
        .collect();
    plain(StatusCode::OK, Value::from(groups).to_string())
}

/// When an instance last beat.
pub(super) async fn instance_heartbeat(api: HttpApi, request: Request) -> Response<Body> {
    let query = match read_query(&api, &request, &["id"]) {
        Ok(query) => query,
        Err(failure) => return failed(&failure),
    };
    let Some(id) = query.get("id") else {
        return failed(&Code::InvalidInstanceID.into());
    };
    let is_registered = api.registry().state().instance(id).is_some();
    let Some(beat) = api.registry().last_beat(id) else {
        let code = if is_registered { Code::NotFoundResource } else { Code::NotFoundInstance };
        return failed(&code.into());
    };
    let text = json!({
        "instance_id": id,
        "registered": is_registered,
        "last_heartbeat_sec": beat.at_ms / 1_000,
        "count": beat.count,
    });
    plain(StatusCode::OK, text.to_string())
}

/// The clients that reported themselves lately.
pub(super) async fn clients(api: HttpApi, request: Request) -> Response<Body> {
    if let Err(failure) = read_query(&api, &request, &[]) {
        return failed(&failure);
    }
    let descriptor = descriptors().get_message_by_name("v1.Client").expect("it is in the schema");
    let mut text = String::from("[");
    for (index, client) in api.registry().clients().iter().enumerate() {
        if index > 0 {
            text.push(',');
        }
        let start = text.len();
        // What cannot be shown was no client; a list with a gap is better than none.
        if json::print_into(&mut text, &descriptor, &client.body).is_err() {
            text.truncate(start);
            text.push_str("null");
        }
    }
    text.push(']');
    plain(StatusCode::OK, text)
}

/// Where the metrics of clients are scraped, as Prometheus reads it.
pub(super) async fn scrape_targets(api: HttpApi) -> Response<Body> {
    let mut groups = Vec::new();
    for reported in api.registry().clients() {
        let Ok(client) = v1::Client::decode(&*reported.body) else {
            continue;
        };
        let host = client.host.unwrap_or_default();
        for stat in client.stat.into_iter().filter(|stat| stat.target.as_deref() == Some(SCRAPER)) {
            groups.push(json!({
                "targets": [format!("{host}:{}", stat.port.unwrap_or(0))],
                "labels": {
                    "__metrics_path__": stat.path.unwrap_or_default(),
                    "__scheme__": stat.protocol.unwrap_or_default(),
                    "__meta_polaris_client_id": &*reported.id,
                },
            }));
        }
    }
    let mut response = plain(StatusCode::OK, Value::from(groups).to_string());
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

/// The query of a call that needs a token.
fn read_query(api: &HttpApi, request: &Request, keys: &[&str]) -> Result<Query, Failure> {
    api.access.check_console(token(request.headers()))?;
    Query::parse(request.uri().query(), keys)
}

fn failed(failure: &Failure) -> Response<Body> {
    Reply::failure(RESPONSE, failure).into_response()
}
