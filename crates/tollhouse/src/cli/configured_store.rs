//! The store that the configuration names, for commands that read or write it without a gateway: that of
//! the data directory, or the etcd that gateways share.

use std::sync::Arc;

use anyhow::Context;
use tokio::runtime::{Builder, Runtime};
use tollhouse_config::Bootstrap;
use tollhouse_control::feed::{etcd, lost_store};
use tollhouse_control::secrets::shenyu_store::{self, ShenyuStore};
use tollhouse_control::secrets::{self, sealed_store};
use tollhouse_model::encryption::Keyring;
use tollhouse_store::{Listing, Location, Store, StoreError};

use super::{gateway, objects};

/// Whether other gateways have the store too.
pub fn is_shared(bootstrap: &Bootstrap) -> bool {
    !bootstrap.store.etcd.endpoints.is_empty()
}

/// What people call it.
pub fn name(bootstrap: &Bootstrap) -> String {
    if is_shared(bootstrap) {
        return format!("etcd at {}", bootstrap.store.etcd.endpoints.join(", "));
    }
    bootstrap.data_dir.display().to_string()
}

/// All that lies below the prefix, of one revision. A gateway may run meanwhile. A store that is not there
/// yet is [`StoreError::Missing`].
///
/// # Errors
/// The store cannot be read.
pub fn read(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    read_below(bootstrap, &format!("{}/", objects::prefix(bootstrap)))
}

/// The same of what lies below another prefix.
///
/// # Errors
/// The store cannot be read.
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

/// All of ShenYu's objects, with their secrets in the clear.
///
/// # Errors
/// The store cannot be read, or the keyring.
pub fn read_shenyu(bootstrap: &Bootstrap) -> anyhow::Result<Listing> {
    let listing = read_below(bootstrap, tollhouse_shenyu::KEY_PREFIX)?;
    let keyring = secrets::keyring_if_any(bootstrap)?;
    // Without one, nothing has been sealed yet.
    Ok(match keyring {
        Some(keyring) => shenyu_store::open_listing(listing, &keyring),
        None => listing,
    })
}

/// A store that is open for writing, with the keys that its secrets are sealed with.
pub struct OpenStore {
    runtime: Runtime,
    store: Arc<dyn Store>,
    /// Seals and opens its secrets.
    pub keyring: Keyring,
}

impl OpenStore {
    /// Opens it. The store of a data directory is then held: no gateway may run with it.
    ///
    /// # Errors
    /// The store cannot be opened, or its secrets are sealed with another keyring.
    pub fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Self::open_unless_in_use(bootstrap, &gateway::way_through(bootstrap))
    }

    /// Opens it like [`OpenStore::open`]; `remedy` tells what to do while a gateway holds it.
    ///
    /// # Errors
    /// As [`OpenStore::open`].
    pub fn open_unless_in_use(bootstrap: &Bootstrap, remedy: &str) -> anyhow::Result<Self> {
        let runtime = runtime()?;
        let (store, keyring) = if is_shared(bootstrap) {
            runtime.block_on(open_shared(bootstrap))?
        } else {
            runtime.block_on(open_own(bootstrap, remedy))?
        };
        Ok(Self { runtime, store, keyring })
    }

    /// The store itself.
    pub fn store(&self) -> &dyn Store {
        self.store.as_ref()
    }

    /// The store as ShenYu's objects are kept there.
    pub fn shenyu(&self) -> ShenyuStore {
        ShenyuStore::new(Arc::clone(&self.store), &self.keyring)
    }

    /// Waits for what the store does.
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

/// What commands wait on.
///
/// # Errors
/// The kernel refuses.
pub fn runtime() -> anyhow::Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
