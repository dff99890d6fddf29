//! Announcement of this node as a server of global rate limits, for as long as it serves: SDKs look
//! for an instance of `polaris.limiter`.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::sync::watch;
use tollhouse_admin::RegistryDialect;
use tollhouse_registry::{Command, Metadata, NewInstance, Registry, SYSTEM_NAMESPACE, ServiceRef};
use tollhouse_web::until_stopped;

use super::dialect::PolarisDialect;

/// Service that SDKs look for.
const SERVICE: &str = "polaris.limiter";

/// Protocol that SDKs select instances by.
const PROTOCOL: &str = "grpc";

/// Interval between heartbeats.
const TTL: Duration = Duration::from_secs(5);

/// Keeps the node registered until the stop, then deregisters it.
pub(super) async fn announce(registry: Registry, address: SocketAddr, stop: watch::Receiver<bool>) {
    let instance = instance(address);
    let id = instance.id.clone();
    let keeping = async {
        let mut beats = tokio::time::interval(TTL);
        loop {
            beats.tick().await;
            if registry.state().instance(&id).is_none() {
                let register = Command::Register(Box::new(instance.clone()));
                if let Err(error) = registry.submit(register).await {
                    tracing::warn!(%error, %address, "cannot register as polaris.limiter");
                }
            }
            registry.heartbeat(&id);
        }
    };
    tokio::select! {
        () = keeping => {}
        () = until_stopped(stop) => {}
    }
    // Fails only if the registry is dead; the instance then expires.
    let _ = registry.submit(Command::Deregister(id)).await;
}

fn instance(address: SocketAddr) -> NewInstance {
    let host = address.ip().to_string();
    let service = ServiceRef { namespace: SYSTEM_NAMESPACE, name: SERVICE };
    let id = PolarisDialect::default().instance_id(service, "", &host, u32::from(address.port()));
    let metadata = Metadata::from([("protocol".into(), PROTOCOL.into())]);
    NewInstance {
        id: id.into(),
        service: SERVICE.into(),
        namespace: SYSTEM_NAMESPACE.into(),
        host: host.into(),
        port: Some(u32::from(address.port())),
        protocol: PROTOCOL.into(),
        ttl_seconds: Some(TTL.as_secs() as u32),
        metadata_pairs: metadata.len(),
        metadata,
        ..NewInstance::default()
    }
}

#[cfg(test)]
mod tests {
    use tollhouse_registry::{Keeper, Options};
    use tollhouse_store::Location;

    use super::*;

    #[tokio::test]
    async fn a_limiter_is_registered_while_it_serves() {
        let store = tollhouse_store::open(&Location::Memory).expect("memory");
        let (keeper, registry) = Keeper::open(store, Options::default()).await.expect("empty");
        tokio::spawn(keeper.run(std::future::pending()));
        let (stop, stopped) = watch::channel(false);
        let address = "10.0.0.5:8091".parse().expect("an address");
        let announcing = tokio::spawn(announce(registry.clone(), address, stopped));
        let service = ServiceRef { namespace: SYSTEM_NAMESPACE, name: SERVICE };
        let mut versions = registry.subscribe();
        let count = || registry.state().service(service).map_or(0, |view| view.counts.healthy);
        while count() == 0 {
            versions.changed().await.expect("kept");
        }
        let labels = registry.state().service(service).and_then(|view| {
            view.instances().next().map(|instance| instance.metadata["protocol"].clone())
        });
        assert_eq!(labels.as_deref(), Some(PROTOCOL));
        stop.send(true).expect("announced");
        announcing.await.expect("no panic");
        assert_eq!(count(), 0);
    }
}
