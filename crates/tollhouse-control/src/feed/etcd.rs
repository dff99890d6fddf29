//! The etcd that gateways share: connection options from the bootstrap file, and reports of
//! outages. During an outage the configuration in service stays, and the client keeps retrying.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_etcd::{EtcdOptions, EtcdStore, Identity, Relocation, Tls, WatchLag, WatchLags};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::Store;
use tollhouse_telemetry::Metrics;

use super::cluster_id::{self, ClusterId};
use super::fenced_store::FencedStore;
use super::folder_marks::FolderMarks;
use super::store_copy::StoreCopy;
use crate::outages::{Outages, Part};
use crate::secrets::shared_keyring;

/// Creates the store from the bootstrap file. It connects on first use.
///
/// # Errors
/// If an address is invalid, or a certificate or key cannot be read.
pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<EtcdStore> {
    Ok(EtcdStore::open(&options(bootstrap)?)?)
}

/// Returns this node's local copy of the store.
pub(crate) fn copy(bootstrap: &Bootstrap) -> StoreCopy {
    StoreCopy::new(&bootstrap.data_dir, bootstrap.admin.prefix.trim_end_matches('/'))
}

/// Returns the connection options from the bootstrap file.
pub(crate) fn options(bootstrap: &Bootstrap) -> anyhow::Result<EtcdOptions> {
    let etcd = &bootstrap.store.etcd;
    let user = etcd.user.as_ref().zip(etcd.password.as_ref());
    let prefix = bootstrap.admin.prefix.trim_end_matches('/');
    let read = |name: &str, path: Option<&Path>| path.map(|path| pem(name, path)).transpose();
    let authorities = read("store.etcd.tls.ca", etcd.tls.ca.as_deref())?;
    let certificate = read("store.etcd.tls.cert", etcd.tls.cert.as_deref())?;
    let key = read("store.etcd.tls.key", etcd.tls.key.as_deref())?;
    let identity = certificate.zip(key).map(|(certificate, key)| Identity { certificate, key });
    Ok(EtcdOptions {
        endpoints: etcd.endpoints.clone(),
        user: user.map(|(name, password)| (name.clone(), password.expose().to_owned())),
        tls: Some(Tls { authorities, identity }),
        timeout: etcd.timeout,
        namespace: String::new(),
        own_prefix: format!("{prefix}/tollhouse/"),
        // ShenYu's key prefix is fixed, so that two clusters in one etcd would share the objects;
        // relocation puts them under this cluster's prefix.
        relocation: Some(Relocation {
            keys: tollhouse_shenyu::KEY_PREFIX.to_owned(),
            place: format!("{prefix}/tollhouse{}", tollhouse_shenyu::KEY_PREFIX),
        }),
    })
}

fn pem(name: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{name}: {} cannot be read", path.display()))
}

/// A shared store after its identity was checked.
pub struct ClusterStore {
    /// The store; it refuses commits once the store is another cluster's.
    pub store: Arc<dyn Store>,
    pub cluster: ClusterId,
    pub keyring: Keyring,
}

/// Joins a gateway or a command to the cluster of the shared store. The store must be the one that
/// this node used before, and the keyring that of the other nodes.
///
/// # Errors
/// If the store is of [another cluster](cluster_id::OtherCluster), if its secrets are sealed with
/// another keyring, or if it cannot be read or written.
pub async fn join(bootstrap: &Bootstrap, store: Arc<dyn Store>) -> anyhow::Result<ClusterStore> {
    let prefix = bootstrap.admin.prefix.trim_end_matches('/');
    let copy = copy(bootstrap);
    let path = copy.path().display().to_string();
    // The identity check comes first, so that nothing is written to a store of another cluster.
    let cluster = cluster_id::join(store.as_ref(), prefix, copy.cluster(), &path).await?;
    let place = format!("etcd at {}", bootstrap.store.etcd.endpoints.join(", "));
    let fence = cluster_id::fence(prefix, &cluster);
    let store: Arc<dyn Store> = Arc::new(FencedStore::new(store, place, fence));
    let keyring = shared_keyring::check(bootstrap, store.as_ref()).await?;
    FolderMarks::below(prefix).put(store.as_ref()).await?;
    Ok(ClusterStore { store, cluster, keyring })
}

/// Interval at which the lag of watches is measured.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

/// Measures how far the watches of etcd are behind, until the task is aborted.
pub async fn measure_lag(lags: WatchLags, metrics: Arc<Metrics>) {
    loop {
        note_lag(lags.longest(), &metrics);
        tokio::time::sleep(LAG_INTERVAL).await;
    }
}

fn note_lag(lag: Option<WatchLag>, metrics: &Metrics) {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let seconds = lag.map_or(0, |lag| lag.time.as_secs());
    let revisions = lag.map_or(0, |lag| lag.newest.0.saturating_sub(lag.taken.0));
    metrics.process().store_watch_behind_time.set(signed(seconds));
    metrics.process().store_watch_behind_revisions.set(signed(revisions));
}

/// Reports outages of etcd and their ends, until the store is dropped.
pub async fn report(mut reasons: watch::Receiver<Option<String>>, outages: Arc<Outages>) {
    while reasons.changed().await.is_ok() {
        let reason = reasons.borrow_and_update().clone();
        match reason {
            Some(reason) => outages.report(Part::Store, format!("etcd does not answer: {reason}")),
            None => outages.clear(Part::Store),
        }
    }
}
