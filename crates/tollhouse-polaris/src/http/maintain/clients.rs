//! Reported clients, as targets of Prometheus.

use super::read_query;
use crate::code::Code;
use crate::http::HttpApi;
use crate::http::capacity::{CapacityPermit, SHORT_BYTES_MAX};
use crate::http::failure::Failure;
use crate::http::language::Language;
use crate::http::query::{Query, allows};
use crate::http::reply::{RESPONSE, Reply, plain};
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

/// Schemes of addresses that Prometheus can read.
const SCHEMES: [&str; 2] = ["http", "https"];

/// Query parameters that filter reported clients.
const CLIENT_KEYS: &[&str] = &["id", "host", "type", "version"];

/// Lists the addresses at which metrics of reported clients are scraped, in the original's form.
/// The query filters the clients.
pub(super) async fn reported(api: HttpApi, request: Request) -> Response<Body> {
    let language = Language::wanted(request.uri(), request.headers());
    let text = match read_query(&api, &request, "DescribeServerConnections", CLIENT_KEYS) {
        Ok(query) => clients_reply(&api, move |clients| page(clients, &query)).await,
        Err(failure) => Err(failure),
    };
    match text {
        Ok(text) => plain(StatusCode::OK, text),
        Err(failure) => Reply::failure(RESPONSE, &failure).print(language),
    }
}

fn page(clients: Vec<Arc<Client>>, query: &Query) -> Result<String, Failure> {
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
        for stat in client.stat.into_iter().filter(is_scraped) {
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

/// Whether Prometheus can read the metrics that a client reports.
fn is_scraped(stat: &v1::StatInfo) -> bool {
    let scheme = stat.protocol.as_deref().unwrap_or_default();
    stat.target.as_deref() == Some(SCRAPER)
        && SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme))
}
