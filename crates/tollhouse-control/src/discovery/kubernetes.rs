//! Nodes from Kubernetes: the endpoint slices of a service. A watch says that they have changed, and
//! they are then read again, so that no state is put together from events.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::Semaphore;
use tollhouse_config::bootstrap::{
    DiscoveryRegistries, KubernetesRegistry, KubernetesToken, RegistryServers,
};

use super::remote::catalogue::{Catalogue, RemoteInstance, ServiceName};
use super::remote::each::{EarlyAnswers, Read, follow_each, read_on};
use super::remote::http::{Basic, Call, Calls, escaped};
use super::remote::{Protocol, RemoteSource};

pub type Source = RemoteSource<Kubernetes>;

/// Number of services up to which each has a watch; more are polled.
const WATCHES_MAX: usize = 256;

/// Concurrent calls while services are polled.
const POLLS_MAX: usize = 8;

/// Largest list of the slices of a service, in bytes: some ten thousand endpoints.
const BODY_BYTES_MAX: usize = 16 << 20;

/// Time after which the server ends a watch.
const WATCH_TIME: Duration = Duration::from_secs(300);

/// Pause after an event, in which further ones of the same deployment arrive. After early events
/// without a change there is the pause of polls.
const REST: Duration = Duration::from_millis(100);

/// Longest token in a file.
const TOKEN_BYTES_MAX: usize = 64 << 10;

/// API servers of a cluster.
#[derive(Debug)]
pub struct Kubernetes {
    settings: KubernetesRegistry,
    polls: Semaphore,
    next_server: AtomicUsize,
}

/// Version of the slices that were read last.
#[derive(Debug, Default)]
struct Position {
    /// Version of the list, from which a watch starts. It changes with any object of the cluster.
    version: Option<String>,
    /// Version of each slice; `None` if one is missing.
    slices: Option<Vec<String>>,
    early: EarlyAnswers,
}

impl Protocol for Kubernetes {
    const THREAD: &'static str = "kubernetes-nodes";

    fn open(registries: &DiscoveryRegistries) -> Option<Self> {
        let settings = registries.kubernetes.clone()?;
        let (polls, next_server) = (Semaphore::new(POLLS_MAX), AtomicUsize::new(0));
        Some(Self { settings, polls, next_server })
    }

    fn access(&self) -> &RegistryServers {
        &self.settings.access
    }

    async fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) {
        follow_each(&Arc::clone(&catalogue), |name| {
            Arc::clone(&self).follow(Arc::clone(&catalogue), name)
        })
        .await;
    }
}

impl Kubernetes {
    async fn follow(self: Arc<Self>, catalogue: Arc<Catalogue>, name: ServiceName) {
        let first = self.next_server.fetch_add(1, Ordering::Relaxed);
        let access = &self.settings.access;
        let mut calls = Calls::new(access, BODY_BYTES_MAX, first);
        let (kubernetes, known) = (Arc::clone(&self), Arc::clone(&catalogue));
        let mut position = Position::default();
        read_on(catalogue, name, access.fetch_interval, async move |name| {
            kubernetes.read(&known, &mut calls, &mut position, name).await
        })
        .await;
    }

    /// Waits for a change of the slices, if they were read before, and reads them. While watches
    /// fail, the slices are polled.
    async fn read(
        &self,
        catalogue: &Catalogue,
        calls: &mut Calls,
        position: &mut Position,
        name: &ServiceName,
    ) -> Result<Read, String> {
        let fetch_interval = self.settings.access.fetch_interval;
        let may_watch = catalogue.service_count() <= WATCHES_MAX;
        let known = position.version.take().filter(|_| may_watch);
        let mut waited = None;
        if let Some(version) = &known {
            let began = Instant::now();
            let watch = self.watch(calls, version, name).await;
            let pause = match watch {
                Ok(()) => {
                    waited = Some(began.elapsed());
                    REST
                }
                Err(reason) => {
                    let service = &name.service;
                    tracing::debug!(service, reason, "a watch has failed; the service is polled");
                    fetch_interval
                }
            };
            tokio::time::sleep(pause).await;
        }
        let _turn = self.polls.acquire().await.map_err(|error| error.to_string())?;
        let list = calls.try_each(async |calls| self.list(calls, name).await).await?;
        let (version, slices) = (list.metadata.resource_version.clone(), list.versions());
        if let Some(waited) = waited {
            let is_same = version == known || (slices.is_some() && slices == position.slices);
            match is_same {
                true => position.early.note(waited),
                false => position.early.clear(),
            }
        }
        (position.version, position.slices) = (version, slices);
        let may_watch = may_watch && position.version.is_some() && !position.early.are_many();
        let pause = if may_watch { Duration::ZERO } else { fetch_interval };
        let instances = self.instances(list, name)?;
        Ok(Read { instances, pause })
    }

    async fn list(&self, calls: &mut Calls, name: &ServiceName) -> Result<SliceList, String> {
        let token = self.token()?;
        let call = Call::get(target(name));
        let answer = match &token {
            Some(token) => {
                calls.send(call.with_header("authorization", token), Basic::Unused).await?
            }
            None => calls.send(call, Basic::Unused).await?,
        };
        serde_json::from_slice(&answer.body)
            .map_err(|error| format!("the answer is not a list of endpoint slices: {error}"))
    }

    /// Waits until the slices have changed since a version, or the watch ends.
    async fn watch(
        &self,
        calls: &mut Calls,
        version: &str,
        name: &ServiceName,
    ) -> Result<(), String> {
        let token = self.token()?;
        let target = format!(
            "{}&watch=true&resourceVersion={}&timeoutSeconds={}",
            target(name),
            escaped(version),
            WATCH_TIME.as_secs()
        );
        let call = Call { wait: WATCH_TIME, ..Call::get(target) };
        match &token {
            Some(token) => calls.wait_for_bytes(call.with_header("authorization", token)).await,
            None => calls.wait_for_bytes(call).await,
        }
    }

    /// Returns the value of the header with the token. A token in a file is read anew, because it is
    /// replaced there before it ends.
    fn token(&self) -> Result<Option<String>, String> {
        let token = match &self.settings.token {
            None => return Ok(None),
            Some(KubernetesToken::Text(token)) => token.expose().to_owned(),
            Some(KubernetesToken::File(path)) => {
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("{}: {error}", path.display()))?;
                if text.len() > TOKEN_BYTES_MAX {
                    return Err(format!("{} is not a token", path.display()));
                }
                text.trim().to_owned()
            }
        };
        Ok(Some(format!("Bearer {token}")))
    }

    /// Returns the endpoints of the port that the service's name has; `None` without any slice.
    fn instances(
        &self,
        list: SliceList,
        name: &ServiceName,
    ) -> Result<Option<Vec<RemoteInstance>>, String> {
        let items = list.items.unwrap_or_default();
        if items.is_empty() {
            return Ok(None);
        }
        let (_, port) = split(name);
        let mut instances = Vec::new();
        let mut ports = Vec::new();
        for slice in items {
            ports.extend(slice.ports.iter().flatten().map(Port::label));
            let number = slice.ports.iter().flatten().find_map(|found| found.number_if(port));
            let Some(number) = number else { continue };
            for endpoint in slice.endpoints.into_iter().flatten() {
                // Absent means ready.
                let is_ready = endpoint.conditions.ready.unwrap_or(true);
                instances.extend(endpoint.addresses.into_iter().map(|host| RemoteInstance {
                    host,
                    port: number,
                    weight: self.settings.weight,
                    is_healthy: is_ready,
                    ..RemoteInstance::default()
                }));
            }
        }
        if instances.is_empty() && !ports.is_empty() && !ports.iter().any(|it| it.is(port)) {
            let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
            return Err(format!("the service has no port {port:?}, but {}", ports.join(", ")));
        }
        Ok(Some(instances))
    }
}

/// Returns the service and the port in a name such as `orders:http`.
fn split(name: &ServiceName) -> (&str, &str) {
    name.service.rsplit_once(':').unwrap_or((&name.service, ""))
}

fn target(name: &ServiceName) -> String {
    let (service, _) = split(name);
    let selector = format!("kubernetes.io/service-name={service}");
    let namespace = escaped(&name.namespace);
    format!(
        "/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices?labelSelector={}",
        escaped(&selector)
    )
}

/// A port in words: its name, if it has one, and its number.
#[derive(Debug, PartialEq, Eq)]
struct PortLabel {
    name: String,
    number: u32,
}

impl PortLabel {
    fn is(&self, asked: &str) -> bool {
        self.name == asked || self.number.to_string() == asked
    }
}

impl std::fmt::Display for PortLabel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.as_str() {
            "" => write!(out, "{}", self.number),
            name => write!(out, "{name} ({})", self.number),
        }
    }
}

impl Port {
    fn label(&self) -> PortLabel {
        PortLabel { name: self.name.clone().unwrap_or_default(), number: self.port.unwrap_or(0) }
    }

    /// Returns the number of the port if it has this name or number.
    fn number_if(&self, asked: &str) -> Option<u32> {
        self.port.filter(|_| self.label().is(asked))
    }
}

#[derive(Debug, Deserialize)]
struct SliceList {
    #[serde(default)]
    metadata: Metadata,
    /// Required, because a document without it is not a list; null like other empty lists.
    #[serde(deserialize_with = "Option::deserialize")]
    items: Option<Vec<Slice>>,
}

impl SliceList {
    /// Returns the version of each slice; `None` if one is missing.
    fn versions(&self) -> Option<Vec<String>> {
        let slices = self.items.iter().flatten();
        slices.map(|slice| slice.metadata.resource_version.clone()).collect()
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    resource_version: Option<String>,
}

/// Lists of a slice are null if they are empty.
#[derive(Debug, Deserialize)]
struct Slice {
    #[serde(default)]
    metadata: Metadata,
    endpoints: Option<Vec<Endpoint>>,
    ports: Option<Vec<Port>>,
}

#[derive(Debug, Deserialize)]
struct Endpoint {
    addresses: Vec<String>,
    #[serde(default)]
    conditions: Conditions,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Conditions {
    ready: Option<bool>,
}

#[derive(Debug, Deserialize)]
struct Port {
    name: Option<String>,
    port: Option<u32>,
}

#[cfg(test)]
mod tests;
