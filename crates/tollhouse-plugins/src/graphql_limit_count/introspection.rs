//! Source of a service's schema: asked for once, and kept.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use tokio::sync::OnceCell;
use tollhouse_plugin::ConfError;

use crate::graphql::schema::{INTROSPECTION, Schema};
use crate::http_client::{Call, HttpClient, Repeat, Reuse, Target};

/// Time for the answer with a schema.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Time after a failure in which the service is not asked again, in milliseconds.
const RETRY_PAUSE_MS: u64 = 10_000;

/// Source of a schema. Concurrent requests wait for one answer.
#[derive(Debug)]
pub(super) struct SchemaSource {
    target: Target,
    client: HttpClient,
    headers: Vec<(String, Vec<u8>)>,
    schema: OnceCell<Arc<Schema>>,
    /// Time of the last failure.
    failed_ms: Mutex<Option<u64>>,
}

/// The schema cannot be had.
#[derive(Debug)]
pub(super) struct NoSchema;

impl SchemaSource {
    pub(super) fn new(
        endpoint: &str,
        headers: Option<&Map<String, Value>>,
    ) -> Result<Self, ConfError> {
        let target = Target::parse(endpoint)
            .map_err(|error| ConfError::in_field("introspection_endpoint", error.to_string()))?;
        // As in APISIX: the nodes of the route are not verified either.
        let client = HttpClient::new(TIMEOUT, false.into(), Reuse::Never).prepared_for(&target);
        let own = ("Content-Type".to_owned(), b"application/json".to_vec());
        let given = headers.into_iter().flatten();
        let given = given.map(|(name, value)| {
            (name.clone(), value.as_str().unwrap_or_default().as_bytes().to_vec())
        });
        let given: Vec<_> = given.collect();
        let is_own = |(name, _): &(String, Vec<u8>)| name.eq_ignore_ascii_case(&own.0);
        let headers = if given.iter().any(is_own) { given } else { [vec![own], given].concat() };
        Ok(Self { target, client, headers, schema: OnceCell::new(), failed_ms: Mutex::default() })
    }

    /// Returns the schema; asks for it if it is unknown and no attempt has failed lately.
    pub(super) async fn get(&self, now_ms: u64) -> Result<Arc<Schema>, NoSchema> {
        let schema = self.schema.get_or_try_init(async || {
            if self.failed_ms().is_some_and(|failed| now_ms < failed + RETRY_PAUSE_MS) {
                return Err(NoSchema);
            }
            self.fetch().await.map(Arc::new).map_err(|error| {
                tracing::warn!(%error, "the schema of a GraphQL service cannot be had");
                *self.failed_ms.lock().unwrap_or_else(PoisonError::into_inner) = Some(now_ms);
                NoSchema
            })
        });
        schema.await.map(Arc::clone)
    }

    fn failed_ms(&self) -> Option<u64> {
        *self.failed_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn fetch(&self) -> Result<Schema, String> {
        let call = Call {
            method: b"POST".to_vec(),
            path: self.target.path.clone().into_bytes(),
            headers: self.headers.clone(),
            body: Bytes::from(json!({ "query": INTROSPECTION }).to_string()),
            repeat: Repeat::Always,
        };
        let reply =
            self.client.send(&self.target, call).await.map_err(|error| error.to_string())?;
        if reply.status != 200 {
            return Err(format!("unexpected status {}", reply.status));
        }
        let answer = serde_json::from_slice(&reply.body).map_err(|error| error.to_string())?;
        Schema::read(&answer).map_err(str::to_owned)
    }
}
