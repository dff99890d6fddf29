//! An etcd that gateways share: how the bootstrap file says it is reached, and that it is reported when
//! it does not answer. What is in service serves meanwhile; its client goes on asking.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio::sync::watch;
use tollhouse_config::Bootstrap;
use tollhouse_etcd::{EtcdOptions, EtcdStore, Identity, Relocation, Tls};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::Store;

use super::cluster_id::{self, ClusterId};
use super::fenced_store::FencedStore;
use super::folder_marks::FolderMarks;
use super::store_copy::StoreCopy;
use crate::outages::{Outages, Part};
use crate::secrets::shared_keyring;

/// The store in the etcd of the bootstrap file. It is not connected to yet.
///
/// # Errors
/// An address is of no use, or a certificate or key cannot be read.
pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<EtcdStore> {
    Ok(EtcdStore::open(&options(bootstrap)?)?)
}

/// What this node remembers of the store.
pub(crate) fn copy(bootstrap: &Bootstrap) -> StoreCopy {
    StoreCopy::new(&bootstrap.data_dir, bootstrap.admin.prefix.trim_end_matches('/'))
}

/// How it is reached.
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
        // ShenYu's objects have no prefix that is configured; two clusters would share them.
        relocation: Some(Relocation {
            keys: tollhouse_shenyu::KEY_PREFIX.to_owned(),
            place: format!("{prefix}/tollhouse{}", tollhouse_shenyu::KEY_PREFIX),
        }),
    })
}

fn pem(name: &str, path: &Path) -> anyhow::Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("{name}: {} cannot be read", path.display()))
}

/// A store that is shared with others, and theirs to be sure.
pub struct Joined {
    /// The store, which takes writes for as long as it stays this cluster's.
    pub store: Arc<dyn Store>,
    /// Which cluster that is.
    pub cluster: ClusterId,
    /// What its secrets are sealed with.
    pub keyring: Keyring,
}

/// Makes this gateway, or a command, one of those that share the store: it has to be the one that was shared
/// before, with the keyring of the others.
///
/// # Errors
/// The store is of [another cluster](cluster_id::OtherCluster), its secrets are sealed with another keyring, or
/// it cannot be read or written.
pub async fn join(bootstrap: &Bootstrap, store: Arc<dyn Store>) -> anyhow::Result<Joined> {
    let prefix = bootstrap.admin.prefix.trim_end_matches('/');
    let copy = copy(bootstrap);
    let path = copy.path().display().to_string();
    // First: nothing is written to a store of others.
    let cluster = cluster_id::join(store.as_ref(), prefix, copy.cluster(), &path).await?;
    let place = format!("etcd at {}", bootstrap.store.etcd.endpoints.join(", "));
    let fence = cluster_id::fence(prefix, &cluster);
    let store: Arc<dyn Store> = Arc::new(FencedStore::new(store, place, fence));
    let keyring = shared_keyring::check(bootstrap, store.as_ref()).await?;
    FolderMarks::below(prefix).put(store.as_ref()).await?;
    Ok(Joined { store, cluster, keyring })
}

/// Reports it when etcd is away and when it is back, until its store is dropped.
pub async fn report(mut reasons: watch::Receiver<Option<String>>, outages: Arc<Outages>) {
    while reasons.changed().await.is_ok() {
        let reason = reasons.borrow_and_update().clone();
        match reason {
            Some(reason) => outages.report(Part::Store, format!("etcd does not answer: {reason}")),
            None => outages.clear(Part::Store),
        }
    }
}
