//! Calls for operators of the server.

use super::HttpApi;
use super::capacity::{CapacityPermit, SHORT_BYTES_MAX};
use super::failure::Failure;
use super::intake::{caller, request_caller};
use super::language::Language;
use super::query::{Query, allows};
use super::reply::{RESPONSE, Reply, plain};
use crate::access::Door;
use crate::code::Code;
use crate::v1;
use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use prost::Message;
use serde_json::{Value, json};
use std::sync::Arc;
use tollhouse_registry::Client;

/// Value of `StatInfo.target` for metrics that Prometheus reads.
const SCRAPER: &str = "prometheus";

/// Functions of the server by group; consoles show or hide pages accordingly.
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
        "ServiceContract",
        &[
            "CreateServiceContracts",
            "DescribeServiceContracts",
            "DescribeServiceContractVersions",
            "DeleteServiceContracts",
            "CreateServiceContractInterfaces",
            "AppendServiceContractInterfaces",
            "DeleteServiceContractInterfaces",
        ],
    ),
    (
        "ConfigGroup",
        &[
            "CreateConfigFileGroup",
            "DeleteConfigFileGroup",
            "UpdateConfigFileGroup",
            "DescribeConfigFileGroups",
        ],
    ),
    (
        "ConfigFile",
        &[
            "PublishConfigFile",
            "CreateConfigFile",
            "UpdateConfigFile",
            "DeleteConfigFile",
            "DescribeConfigFileRichInfo",
            "DescribeConfigFiles",
            "BatchDeleteConfigFiles",
            "ExportConfigFiles",
            "ImportConfigFiles",
            "DescribeConfigFileReleaseHistories",
            "DescribeAllConfigFileTemplates",
            "CreateConfigFileTemplate",
        ],
    ),
    (
        "ConfigRelease",
        &[
            "RollbackConfigFileReleases",
            "DeleteConfigFileReleases",
            "StopGrayConfigFileReleases",
            "DescribeConfigFileRelease",
            "DescribeConfigFileReleases",
            "DescribeConfigFileReleaseVersions",
            "UpsertAndReleaseConfigFile",
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
            "DescribeInstanceLastHeartbeat",
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
            "EnableFaultDetectRules",
            "UpdateFaultDetectRules",
            "DescribeFaultDetectRules",
        ],
    ),
    (
        "LaneRule",
        &[
            "CreateLaneGroups",
            "DeleteLaneGroups",
            "EnableLaneGroups",
            "UpdateLaneGroups",
            "DescribeLaneGroups",
        ],
    ),
    (
        "Client",
        &[
            "RegisterInstance",
            "DeregisterInstance",
            "ReportServiceContract",
            "DiscoverServices",
            "DiscoverInstances",
            "DiscoverRouterRule",
            "DiscoverRateLimitRule",
            "DiscoverCircuitBreakerRule",
            "DiscoverFaultDetectRule",
            "DiscoverServiceContract",
            "DiscoverLaneRule",
            "DiscoverConfigFile",
            "WatchConfigFile",
            "DiscoverConfigFileNames",
            "DiscoverConfigGroups",
        ],
    ),
    (
        "User",
        &[
            "CreateUsers",
            "DeleteUsers",
            "DescribeUsers",
            "DescribeUserToken",
            "EnableUserToken",
            "ResetUserToken",
            "UpdateUser",
            "UpdateUserPassword",
        ],
    ),
    (
        "UserGroup",
        &[
            "CreateUserGroup",
            "UpdateUserGroups",
            "DeleteUserGroups",
            "DescribeUserGroups",
            "DescribeUserGroupDetail",
            "DescribeUserGroupToken",
            "EnableUserGroupToken",
            "ResetUserGroupToken",
        ],
    ),
    (
        "AuthPolicy",
        &[
            "CreateAuthPolicy",
            "UpdateAuthPolicies",
            "DeleteAuthPolicies",
            "DescribeAuthPolicies",
            "DescribeAuthPolicyDetail",
            "DescribePrincipalResources",
        ],
    ),
];

/// Returns the functions of the server. Needs no token, because consoles ask before the login.
pub(super) async fn functions() -> Response<Body> {
    let groups: Vec<Value> = FUNCTIONS
        .iter()
        .map(|(name, functions)| json!({"name": name, "functions": functions}))
        .collect();
    plain(StatusCode::OK, Value::from(groups).to_string())
}

/// Returns the last heartbeat of an instance.
pub(super) async fn instance_heartbeat(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let failed = |failure: &Failure| Reply::failure(RESPONSE, failure).print(language);
    let query = match read_query(&api, &request, "DescribeInstanceLastHeartbeat", &["id"]) {
        Ok(query) => query,
        Err(failure) => return failed(&failure),
    };
    let Some(id) = query.get("id") else {
        return failed(&Code::InvalidInstanceID.into());
    };
    let (head, _) = request.into_parts();
    let admitted = {
        let (state, caller) = (api.registry().state(), caller(&head));
        let rights = api.dialect.rights(&state, Door::Console, &caller);
        rights.instance("DescribeInstanceLastHeartbeat", id)
    };
    if let Err(code) = admitted {
        return failed(&code.into());
    }
    let is_registered = api.registry().state().instance(id).is_some();
    let Some(beat) = api.registry().last_heartbeat(id) else {
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

/// Returns an empty list, for a caller with a token.
pub(super) fn nothing(api: &HttpApi, function: &'static str, request: &Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    match read_query(api, request, function, &[]) {
        Ok(_) => plain(StatusCode::OK, "[]"),
        Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
    }
}

/// Query parameters that filter reported clients.
const CLIENT_KEYS: &[&str] = &["id", "host", "type", "version"];

/// Lists the addresses at which metrics of reported clients are scraped, in the original's form.
/// The query filters the clients.
pub(super) async fn clients(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let text = match read_query(&api, &request, "DescribeServerConnections", CLIENT_KEYS) {
        Ok(query) => clients_reply(&api, move |clients| reported(clients, &query)).await,
        Err(failure) => Err(failure),
    };
    match text {
        Ok(text) => plain(StatusCode::OK, text),
        Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
    }
}

fn reported(clients: Vec<Arc<Client>>, query: &Query) -> Result<String, Failure> {
    let page = query.page()?;
    let groups = targets_of(clients, |client| {
        let kind = client.r#type().as_str_name();
        let texts = [
            ("id", client.id.as_deref()),
            ("host", client.host.as_deref()),
            ("type", Some(kind)),
            ("version", client.version.as_deref()),
        ];
        texts.iter().all(|(key, text)| allows(query.get(key), text.unwrap_or_default()))
    });
    Ok(json!({"Code": Code::ExecuteSuccess.number(), "Response": page.slice(&groups)}).to_string())
}

/// Formats all clients as text, on a blocking thread because there may be many.
async fn clients_reply(
    api: &HttpApi,
    text_of: impl FnOnce(Vec<Arc<Client>>) -> Result<String, Failure> + Send + 'static,
) -> Result<Bytes, Failure> {
    let registry = api.registry().clone();
    let text = api.capacity.work(move || text_of(registry.clients())).await??;
    if text.len() <= SHORT_BYTES_MAX {
        return Ok(text.into());
    }
    let held = api.capacity.hold(text.len()).await?;
    Ok(Bytes::from_owner(BudgetedText { text, _permit: held }))
}

/// A text whose memory is reserved until it was sent.
struct BudgetedText {
    text: String,
    _permit: CapacityPermit,
}

impl AsRef<[u8]> for BudgetedText {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// Lists the addresses at which metrics of clients are scraped, in the form that Prometheus reads.
pub(super) async fn scrape_targets(api: HttpApi) -> Response<Body> {
    let mut response = match clients_reply(&api, all_targets).await {
        Ok(text) => plain(StatusCode::OK, text),
        Err(failure) => return Reply::failure(RESPONSE, &failure).print(Language::English),
    };
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}

fn all_targets(clients: Vec<Arc<Client>>) -> Result<String, Failure> {
    Ok(Value::from(targets_of(clients, |_| true)).to_string())
}

/// Returns the targets of the clients that `shows` selects.
fn targets_of(clients: Vec<Arc<Client>>, shows: impl Fn(&v1::Client) -> bool) -> Vec<Value> {
    let mut groups = Vec::new();
    for reported in clients {
        let Some(client) = v1::Client::decode(&*reported.body).ok().filter(&shows) else {
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
    groups
}

/// Checks the caller, then parses the query.
fn read_query(
    api: &HttpApi,
    request: &Request,
    function: &'static str,
    keys: &[&str],
) -> Result<Query, Failure> {
    let state = api.registry().state();
    let caller = request_caller(request);
    api.dialect.rights(&state, Door::Console, &caller).check(function, &[])?;
    Query::parse(request.uri().query(), keys)
}
