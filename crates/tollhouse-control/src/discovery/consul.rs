//! Nodes from Consul: one blocking query for each service, so that changes arrive at once.
//!
//! All instances are read, with their checks, and those that do not pass do not serve. A blocking
//! query occupies a connection of the agent; for many services, or if `keepalive` is off, services
//! are polled instead.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::Semaphore;
use tollhouse_config::bootstrap::{ConsulRegistry, DiscoveryRegistries};

use super::remote::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::remote::each::{Instances, Read, follow_each, read_on};
use super::remote::http::{Answer, Basic, Call, Calls, escaped};
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<Consul>;

/// Number of services up to which each has a blocking query. An agent admits 200 connections of a
/// client by default.
const BLOCKING_MAX: usize = 100;

/// Concurrent calls while services are polled.
const POLLS_MAX: usize = 8;

/// Largest answer about a service, in bytes: some thousands of instances.
const BODY_BYTES_MAX: usize = 8 << 20;

/// Pause after an answer to a blocking query, so that a service that keeps changing costs little.
const REST: Duration = Duration::from_millis(100);

/// Port of an instance that has none, as in APISIX.
const PORT_DEFAULT: u32 = 80;

/// The service of Consul's own servers.
const OWN_SERVICE: &str = "consul";

/// Header with the index of an answer, which the next blocking query sends back.
const INDEX_HEADER: &str = "x-consul-index";

/// Consul agents.
#[derive(Debug)]
pub struct Consul {
    settings: ConsulRegistry,
    polls: Semaphore,
    /// Number of the next service's first server.
    next_server: AtomicUsize,
}

impl Protocol for Consul {
    const THREAD: &'static str = "consul-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        let settings = registries.consul.clone()?;
        let (polls, next_server) = (Semaphore::new(POLLS_MAX), AtomicUsize::new(0));
        Some(Self { settings, polls, next_server })
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        follow_each(&Arc::clone(&catalogue), |name| {
            Arc::clone(&self).follow(Arc::clone(&catalogue), name)
        })
        .await;
    }
}

impl Consul {
    async fn follow(self: Arc<Self>, catalogue: Arc<Catalogue>, name: ServiceName) {
        let first = self.next_server.fetch_add(1, Ordering::Relaxed);
        let access = &self.settings.access;
        let mut calls = match Calls::new(access, BODY_BYTES_MAX, first) {
            Ok(calls) => calls,
            Err(reason) => return catalogue.fail(&name, &reason),
        };
        let (consul, known) = (Arc::clone(&self), Arc::clone(&catalogue));
        let mut index = 0;
        read_on(catalogue, name, access.fetch_interval, async move |name| {
            consul.read(&known, &mut calls, &mut index, name).await
        })
        .await;
    }

    async fn read(
        &self,
        catalogue: &Catalogue,
        calls: &mut Calls,
        index: &mut u64,
        name: &ServiceName,
    ) -> Result<Read, String> {
        let fetch_interval = self.settings.access.fetch_interval;
        if name.service == OWN_SERVICE || self.settings.skip_services.contains(&name.service) {
            return Ok(Read { instances: Some(Instances(None)), pause: fetch_interval });
        }
        let wait = self.settings.wait.filter(|_| catalogue.service_count() <= BLOCKING_MAX);
        let _turn = match wait {
            Some(_) => None,
            None => Some(self.polls.acquire().await.map_err(|error| error.to_string())?),
        };
        let read = async |calls: &mut Calls| {
            let answer = self.call(calls, *index, wait.unwrap_or_default(), name).await;
            // The next server has another index.
            let answer = answer.inspect_err(|_| *index = 0)?;
            Ok((self.instances(&answer.body)?, index_of(&answer)))
        };
        let (instances, next) = calls.try_each(read).await?;
        if wait.is_none() {
            // Idle connections count as well at the agent.
            calls.close();
        }
        // An index that goes back is that of another or a restored server.
        *index = if next < *index { 0 } else { next };
        let pause = if wait.is_some() && next > 0 { REST } else { fetch_interval };
        Ok(Read { instances: Some(Instances(instances)), pause })
    }

    async fn call(
        &self,
        calls: &mut Calls,
        index: u64,
        wait: Duration,
        name: &ServiceName,
    ) -> Result<Answer, String> {
        let mut target = format!("/v1/health/service/{}", escaped(&name.service));
        let mut may_wait = Duration::ZERO;
        if index > 0 && !wait.is_zero() {
            target.push_str(&format!("?index={index}&wait={}s", wait.as_secs()));
            // The server adds up to a sixteenth to the wait.
            may_wait = wait + wait / 16;
        }
        let mut call = Call { wait: may_wait, ..Call::get(target) };
        if let Some(token) = &self.settings.token {
            call = call.with_header("x-consul-token", token.expose());
        }
        calls.send(call, Basic::Sent).await
    }

    /// Parses an answer. An unknown service has an empty list.
    fn instances(&self, body: &[u8]) -> Result<Option<Vec<RemoteInstance>>, String> {
        let entries: Vec<Entry> = serde_json::from_slice(body)
            .map_err(|error| format!("the answer is not a list of instances: {error}"))?;
        let instances = entries.into_iter().map(|entry| {
            let Entry { node, service, checks } = entry;
            let host = if service.address.is_empty() { node.address } else { service.address };
            let port = if service.port == 0 { PORT_DEFAULT } else { service.port };
            let weight = self.settings.weight.saturating_mul(service.weights.passing);
            let is_healthy = checks.iter().all(|check| check.status == "passing");
            let metadata = service.meta.unwrap_or_default();
            RemoteInstance { host, port, weight, is_healthy, is_isolated: false, metadata }
        });
        let instances: Vec<_> = instances.collect();
        Ok(Some(instances).filter(|instances| !instances.is_empty()))
    }
}

fn index_of(answer: &Answer) -> u64 {
    let index = answer.headers.get(INDEX_HEADER).and_then(|value| value.to_str().ok());
    index.and_then(|index| index.parse().ok()).unwrap_or(0)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: Node,
    service: Service,
    #[serde(default)]
    checks: Vec<Check>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Node {
    address: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Service {
    #[serde(default)]
    address: String,
    #[serde(default)]
    port: u32,
    /// Null for a service without metadata.
    #[serde(default)]
    meta: Option<std::collections::BTreeMap<String, String>>,
    #[serde(default)]
    weights: Weights,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
struct Weights {
    passing: u32,
}

impl Default for Weights {
    fn default() -> Self {
        Self { passing: 1 }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Check {
    status: String,
}

#[cfg(test)]
mod tests;
