//! Client of the registry behind an Admin API.

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use hyper::StatusCode;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::runtime::Runtime;
use tollhouse_config::Bootstrap;

use crate::cli::admin_client::{AdminClient, refusal};
use crate::cli::gateway::{Gateway, other_ways};

/// Path prefix of the registry's objects.
const BASE: &str = "/registry/v1";

/// Number of objects per request of a list: the maximum that the API allows.
const PAGE_SIZE: usize = 5_000;

/// Connection to the registry through the Admin API.
pub struct Remote {
    client: AdminClient,
    ways: String,
}

impl Remote {
    /// Creates a client for a gateway; the first request opens the connection.
    ///
    /// # Errors
    /// If the Admin API is off, or uses TLS.
    pub fn open(gateway: &Gateway, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Ok(Self { client: gateway.client(bootstrap)?, ways: other_ways(bootstrap) })
    }

    /// Returns the runtime that the client's IO runs on.
    pub fn runtime(&self) -> &Runtime {
        self.client.runtime()
    }

    /// Returns the host of the Admin API, without the port.
    pub fn host(&self) -> &str {
        let authority = self.client.authority();
        authority.rsplit_once(':').map_or(authority, |(host, _)| host)
    }

    /// Sends a request, and returns its status and body; the caller checks the status.
    pub fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<(StatusCode, Bytes)> {
        let body = body.map_or_else(Bytes::new, |body| body.to_string().into());
        let answered = self.client.ask(method, &format!("{BASE}/{path}"), body);
        answered.map_err(|error| {
            let ways = &self.ways;
            anyhow!("{error:#}\n    hint: is the gateway running? Without its Admin API, {ways}")
        })
    }

    /// Sends a request, and returns the JSON body of its answer; an error status is an error.
    pub fn get(&mut self, method: &str, path: &str, body: Option<&Value>) -> anyhow::Result<Value> {
        let (status, answer) = self.ask(method, path, body)?;
        if !status.is_success() {
            bail!("{}", refusal(status, &answer));
        }
        if answer.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&answer)
            .with_context(|| format!("the answer to {path} is not JSON; is that a Tollhouse?"))
    }

    /// Returns all objects of a list, read page by page. `query` contains the filters, and may be
    /// empty.
    pub fn list(&mut self, path: &str, query: &str) -> anyhow::Result<Vec<Value>> {
        let mut all = Vec::new();
        for page in 1.. {
            let more = if query.is_empty() { "" } else { "&" };
            let path = format!("{path}?page={page}&page_size={PAGE_SIZE}{more}{query}");
            let mut answer = self.get("GET", &path, None)?;
            let total = answer.get("total").and_then(Value::as_u64).unwrap_or_default();
            let Some(Value::Array(list)) = answer.get_mut("list").map(Value::take) else {
                bail!("the answer to {path} is not a list; is that a Tollhouse?");
            };
            let is_last = list.len() < PAGE_SIZE;
            all.extend(list);
            if is_last || all.len() as u64 >= total {
                break;
            }
        }
        Ok(all)
    }

    pub fn open_stream(&mut self, path: &str) -> anyhow::Result<(StatusCode, Incoming)> {
        self.client.open_stream(&format!("{BASE}/{path}"))
    }
}
