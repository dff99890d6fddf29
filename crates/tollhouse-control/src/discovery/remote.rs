//! Sources that read registries outside of this process: Consul, Nacos, Eureka.
//!
//! A protocol reads services into a [`Catalogue`], from which [`ServiceNodes`] selects the nodes of
//! upstreams, as it does for the registry of this process. Only services of upstreams are read. A
//! registry that fails takes nothing away: the last instances stay, and the report says so.

pub(super) mod agents;
pub(super) mod catalogue;
pub(super) mod each;
pub(super) mod http;
#[cfg(test)]
pub(super) mod test_server;

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use tokio::task::LocalSet;
use tollhouse_config::bootstrap::{DiscoveryRegistries, RegistryServers};
use tollhouse_upstream::UpstreamState;

use self::catalogue::Catalogue;
use super::service_nodes::{Reach, ServiceNodes, UpstreamReport};
use super::{Detail, NodeSource, SourceSettings};

/// Access to one kind of registry. Each file of a remote source implements it.
pub trait Protocol: Send + Sync + 'static {
    /// Name of the source's thread.
    const THREAD: &'static str;

    /// Returns the registry of the bootstrap file; `None` if the file has no registry of this kind.
    fn open(registries: &DiscoveryRegistries) -> Option<Self>
    where
        Self: Sized;

    /// Returns the servers of the registry.
    fn access(&self) -> &RegistryServers;

    /// Reads the services of upstreams into the catalogue until the future is dropped.
    fn run(self: Arc<Self>, catalogue: Arc<Catalogue>) -> impl Future<Output = ()>;
}

/// A source over a registry outside of this process.
pub struct RemoteSource<P> {
    nodes: Arc<ServiceNodes>,
    /// `None` if the bootstrap file has no such registry.
    registry: Option<(Arc<P>, Arc<Catalogue>)>,
    /// Ends the thread that reads the registry; set once it was started.
    stop: Mutex<Option<watch::Sender<()>>>,
}

impl<P> std::fmt::Debug for RemoteSource<P> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("RemoteSource").field("is_on", &self.registry.is_some()).finish()
    }
}

impl<P: Protocol> NodeSource for RemoteSource<P> {
    fn open(settings: &SourceSettings<'_>) -> Self {
        let protocol = P::open(&settings.bootstrap.discovery);
        let servers = protocol.as_ref().map_or(&[][..], |protocol| &protocol.access().servers);
        let reach = Reach::from_servers(settings.bootstrap, Arc::clone(settings.bound), servers);
        let nodes = Arc::new(ServiceNodes::within(reach));
        let registry = protocol.map(|protocol| (Arc::new(protocol), Arc::<Catalogue>::default()));
        if let Some((_, catalogue)) = &registry {
            nodes.connect(Arc::<Catalogue>::clone(catalogue));
        }
        Self { nodes, registry, stop: Mutex::default() }
    }

    fn follow(&self, upstream: &Arc<UpstreamState>) {
        let Some(discovery) = upstream.discovery() else { return };
        match &self.registry {
            Some((protocol, catalogue)) => {
                catalogue.follow(upstream.key(), discovery.service);
                self.start(protocol, catalogue);
            }
            // Requests are answered at once, instead of waiting for nodes.
            None => upstream.publish_nodes(Vec::new()),
        }
        self.nodes.follow_upstream(upstream);
    }

    fn leave(&self, key: &str) {
        if let Some((_, catalogue)) = &self.registry {
            catalogue.leave(key);
        }
        self.nodes.leave(key);
    }

    fn unconfigured(&self) -> Vec<String> {
        match self.registry {
            Some(_) => Vec::new(),
            None => {
                let reports = self.nodes.report(Detail::Counts).into_iter();
                reports.map(|report| report.upstream).collect()
            }
        }
    }

    fn report(&self, detail: Detail) -> Vec<UpstreamReport> {
        self.nodes.report(detail)
    }
}

impl<P: Protocol> RemoteSource<P> {
    /// Starts the thread that reads the registry, on the first call. A separate thread is used
    /// because long answers take a while to parse.
    fn start(&self, protocol: &Arc<P>, catalogue: &Arc<Catalogue>) {
        let mut stop = self.stop.lock().unwrap_or_else(PoisonError::into_inner);
        if stop.is_some() {
            return;
        }
        let (sender, mut stopped) = watch::channel(());
        *stop = Some(sender);
        let nodes = Arc::clone(&self.nodes);
        let (protocol, catalogue) = (Arc::clone(protocol), Arc::clone(catalogue));
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = match runtime {
                Ok(runtime) => runtime,
                Err(error) => {
                    return tracing::error!(%error, "a source of nodes cannot be started");
                }
            };
            let follow = async move {
                tokio::select! {
                    () = protocol.run(catalogue) => {}
                    () = nodes.run() => {}
                    // The sender sends nothing, and ends with the source.
                    _ = stopped.changed() => {}
                }
            };
            LocalSet::new().block_on(&runtime, follow);
        };
        if let Err(error) = std::thread::Builder::new().name(P::THREAD.to_owned()).spawn(run) {
            tracing::error!(%error, "a source of nodes cannot be started");
        }
    }
}
