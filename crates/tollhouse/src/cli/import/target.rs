//! Where an import writes: into the store of this machine, or through an Admin API.
//!
//! The store is held from before it is compared until all is written, so that nothing comes
//! between. Through an Admin API others may write at the same time, as they may anyway.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use tokio::runtime::Runtime;
use tollhouse_config::{Bootstrap, store_keys};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::sealing;
use tollhouse_store::{Location, Operation, Store, StoreError};

use super::ImportArguments;
use super::admin::AdminApi;
use super::plan::{Change, PrivateKeys};
use crate::cli::objects::{self, Objects};
use crate::cli::problems;
use tollhouse_control::batches::Batches;
use tollhouse_control::secrets::{self, sealed_store};

/// Where objects are.
pub(super) enum Target {
    /// In a store that this process has to itself.
    Store(OwnStore),
    /// In a store that is looked at only: nothing will be written.
    Looked(Looked),
    /// Behind an Admin API.
    Admin(AdminApi),
}

impl Target {
    /// What the arguments ask for.
    pub(super) fn open(arguments: &ImportArguments, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        if let Some(url) = &arguments.admin {
            let key = arguments.admin_key.as_deref();
            return Ok(Self::Admin(AdminApi::open(url, key, bootstrap)?));
        }
        if arguments.dry_run {
            return Ok(Self::Looked(Looked::open(bootstrap)?));
        }
        Ok(Self::Store(OwnStore::open(bootstrap)?))
    }

    /// The objects that are there, with secrets in the clear where they can be.
    pub(super) fn objects(&mut self) -> anyhow::Result<Objects> {
        match self {
            Self::Store(store) => store.objects(),
            Self::Looked(looked) => looked.objects(),
            Self::Admin(admin) => admin.objects(),
        }
    }

    /// The keys that secrets in documents may be encrypted with.
    pub(super) fn keyring(&self) -> Option<&Keyring> {
        match self {
            Self::Store(store) => Some(&store.keyring),
            Self::Looked(looked) => looked.keyring.as_ref(),
            Self::Admin(admin) => admin.keyring(),
        }
    }

    /// Whether private keys of certificates can be compared.
    pub(super) fn hides_private_keys(&self) -> PrivateKeys {
        match self {
            Self::Store(_) | Self::Looked(_) => PrivateKeys::Seen,
            Self::Admin(_) => PrivateKeys::Hidden,
        }
    }

    /// Makes the changes.
    pub(super) fn apply(&mut self, changes: &[Change]) -> anyhow::Result<()> {
        match self {
            Self::Store(store) => store.apply(changes),
            Self::Looked(_) => bail!("a store that is only looked at is not written"),
            Self::Admin(admin) => admin.apply(changes),
        }
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Store(store) => store.data_dir.display().to_string(),
            Self::Looked(looked) => looked.data_dir.display().to_string(),
            Self::Admin(admin) => admin.name(),
        }
    }
}

/// The store of a data directory, held.
pub(super) struct OwnStore {
    data_dir: PathBuf,
    prefix: String,
    store: Arc<dyn Store>,
    keyring: Keyring,
    runtime: Runtime,
}

impl OwnStore {
    fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        let data_dir = bootstrap.data_dir.clone();
        let store = match tollhouse_store::open(&Location::Directory(data_dir.clone())) {
            Ok(store) => store,
            Err(error @ StoreError::InUse { .. }) => {
                return Err(error).context(
                    "a gateway runs with this data directory; write through it with \
                     --admin http://127.0.0.1:9180 (its Admin API), or stop it first",
                );
            }
            Err(error) => return Err(error).context("failed to open the store"),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let catalogue = tollhouse_control::plugins::catalogue();
        let keyring =
            runtime.block_on(sealed_store::keyring_for(bootstrap, store.as_ref(), &catalogue))?;
        let prefix = objects::prefix(bootstrap).to_owned();
        Ok(Self { prefix, keyring, runtime, data_dir, store })
    }

    fn objects(&self) -> anyhow::Result<Objects> {
        let folder = format!("{}/", self.prefix);
        let listing = self.store.list(&folder);
        let listing = self.runtime.block_on(listing).context("failed to read the store")?;
        Ok(objects_of(&listing, &self.prefix, Some(&self.keyring)))
    }

    /// As few transactions as the store's limits allow: one, but for very large documents.
    fn apply(&self, changes: &[Change]) -> anyhow::Result<()> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let mut batches = Batches::new(self.store.limits());
        for change in changes {
            batches.add(self.operation(change, now_s));
        }
        let mut written = 0;
        for transaction in batches.finish() {
            let count = transaction.operations.len();
            let commit = self.store.commit(transaction);
            self.runtime.block_on(commit).with_context(|| match written {
                0 => "failed to write to the store; nothing was written".to_owned(),
                _ => format!(
                    "failed to write to the store; {written} of {} changes were written: repeat \
                     the import once the reason is gone",
                    changes.len()
                ),
            })?;
            written += count;
        }
        Ok(())
    }

    fn operation(&self, change: &Change, now_s: u64) -> Operation {
        let key = store_keys::store_key(&self.prefix, change.kind, &change.id).into();
        let Some(new) = &change.new else { return Operation::Delete { key } };
        let mut value = new.to_store(change.kind, &change.id, now_s);
        sealing::seal(
            change.kind,
            &mut value,
            &tollhouse_control::plugins::catalogue(),
            &self.keyring,
        );
        Operation::Put { key, value: value.to_string().into(), lease: None }
    }
}

/// A store, as it was when somebody looked.
pub(super) struct Looked {
    data_dir: PathBuf,
    prefix: String,
    keyring: Option<Keyring>,
}

impl Looked {
    fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Ok(Self {
            data_dir: bootstrap.data_dir.clone(),
            prefix: objects::prefix(bootstrap).to_owned(),
            keyring: secrets::keyring_if_any(bootstrap)?,
        })
    }

    fn objects(&self) -> anyhow::Result<Objects> {
        match tollhouse_store::read_directory(&self.data_dir, &format!("{}/", self.prefix)) {
            Ok(listing) => Ok(objects_of(&listing, &self.prefix, self.keyring.as_ref())),
            // An import makes the store where there is none.
            Err(StoreError::Missing { .. }) => Ok(Objects::new()),
            Err(error) => Err(error).context("failed to read the store"),
        }
    }
}

fn objects_of(
    listing: &tollhouse_store::Listing,
    prefix: &str,
    keyring: Option<&Keyring>,
) -> Objects {
    let (mut found, wrong) = objects::of_listing(listing, prefix);
    problems::print("store", &wrong);
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, _), object) in &mut found {
        object.unseal(*kind, &catalogue, keyring);
    }
    found
}
