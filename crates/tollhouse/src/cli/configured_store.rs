//! Access to the configured store without a gateway, for commands. The store is that of the data
//! directory, or an etcd that gateways share.

use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::Bootstrap;
use tollhouse_control::feed::{etcd, lost_store};
use tollhouse_control::secrets::sealing_store::SealingStore;
use tollhouse_control::secrets::shenyu_store;
use tollhouse_control::secrets::{self, sealed_store};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Listing, Location, Store, StoreError};

use super::{gateway, objects};

/// Whether other gateways share the store.
pub fn is_shared(bootstrap: &Bootstrap) -> bool {
    !bootstrap.store.etcd.endpoints.is_empty()
}

/// Returns the path or address of the store for messages.
pub fn name(bootstrap: &Bootstrap) -> String {
    if is_shared(bootstrap) {
        return format!("etcd at {}", bootstrap.store.etcd.endpoints.join(", "));
    }
    bootstrap.data_dir.display().to_string()
}

/// Reads all keys below the configured prefix, at one revision. A gateway may run meanwhile. If the
/// store does not exist yet, the error is [`StoreError::Missing`].
///
/// # Errors
/// If the store cannot be read.
pub fn read(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    read_below(bootstrap, &format!("{}/", objects::prefix(bootstrap)))
}

/// Reads all keys below the prefix `folder`, at one revision.
///
/// # Errors
/// If the store cannot be read.
pub fn read_below(bootstrap: &Bootstrap, folder: &str) -> anyhow::Result<Listing> {
    if !is_shared(bootstrap) {
        return Ok(tollhouse_store::read_directory(&bootstrap.data_dir, folder)?);
    }
    let listing = runtime()?.block_on(async {
        let store = etcd::open(bootstrap)?;
        anyhow::Ok(store.list(folder).await?)
    })?;
    Ok(listing)
}

/// Reads all objects of ShenYu, with their secrets unsealed.
///
/// # Errors
/// If the store or the keyring cannot be read.
pub fn read_shenyu(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    let listing = read_below(bootstrap, tollhouse_shenyu::KEY_PREFIX)?;
    let keyring = secrets::keyring_if_any(bootstrap)?;
    // Without a keyring nothing was sealed yet.
    Ok(match keyring {
        Some(keyring) => shenyu_store::open_listing(listing, &keyring),
        None => listing,
    })
}

/// A store opened for writing, with the keyring for its secrets.
pub struct OpenStore {
    runtime: Runtime,
    store: Arc<dyn Store>,
    pub keyring: Keyring,
}

impl OpenStore {
    /// Opens the store for writing. The store of a data directory is locked, and no gateway may use
    /// it at the same time.
    ///
    /// # Errors
    /// If the store cannot be opened, or its secrets are sealed with another keyring.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Self::open_unless_in_use(bootstrap, &gateway::way_through(bootstrap))
    }

    /// Opens the store like [`OpenStore::open`]; `remedy` is the hint if a gateway holds it.
    ///
    /// # Errors
    /// For the reasons of [`OpenStore::open`].
    pub fn open_unless_in_use(bootstrap: &Bootstrap, remedy: &str) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let (store, keyring) = if is_shared(bootstrap) {
            runtime.block_on(open_shared(bootstrap))?
        } else {
            runtime.block_on(open_own(bootstrap, remedy))?
        };
        Ok(Self { runtime, store, keyring })
    }

    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// Returns access to ShenYu's objects in the store.
    pub fn shenyu(&self) -> SealingStore {
        shenyu_store::shenyu_store(Arc::clone(&self.store), &self.keyring)
    }

    /// Runs a future on the store's runtime.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

async fn open_shared(bootstrap: &Bootstrap) -> anyhow::Result<(Arc<dyn Store>, Keyring)> {
    let joined = etcd::join(bootstrap, Arc::new(etcd::open(bootstrap)?)).await?;
    Ok((joined.store, joined.keyring))
}

async fn open_own(
    bootstrap: &Bootstrap,
    remedy: &str,
) -> anyhow::Result<(Arc<dyn Store>, Keyring)> {
    lost_store::check(bootstrap)?;
    let store = match tollhouse_store::open(&Location::Directory(bootstrap.data_dir.clone())) {
        Ok(store) => store,
        Err(error @ StoreError::InUse { .. }) => {
            return Err(error)
                .with_context(|| format!("a gateway runs with this data directory; {remedy}"));
        }
        Err(error) => return Err(error).context("failed to open the store"),
    };
    let catalogue = tollhouse_control::plugins::catalogue();
    let keyring = sealed_store::keyring_for(bootstrap, store.as_ref(), &catalogue).await?;
    Ok((store, keyring))
}

/// Creates a runtime for commands.
///
/// # Errors
/// If the operating system refuses its resources.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
