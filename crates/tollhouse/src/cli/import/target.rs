//! Targets of an import: the configured store, or an Admin API.
//!
//! The store of a data directory is locked from before the comparison until everything is written.
//! An etcd (`whole.rs`) and an Admin API may be written by others meanwhile.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, bail};
use tollhouse_admin::transfer::{Change, PrivateKeys};
use tollhouse_config::{Bootstrap, store_keys};
use tollhouse_model::encryption::Keyring;
use tollhouse_plugin::sealing::{self, ObjectRef};
use tollhouse_store::{Operation, Revision, StoreError};

use super::ImportArguments;
use super::admin::AdminApi;
use super::whole::WholeImport;
use crate::cli::configured_store::{self, OpenStore};
use crate::cli::objects::{self, Objects};
use crate::cli::problems;
use tollhouse_control::feed::import_marker::ImportMarker;
use tollhouse_control::secrets;
use tollhouse_store::Batches;

pub(super) enum Target {
    /// The configured store, opened for writing.
    Store(OwnStore),
    /// A store that is only read, for `--dry-run`.
    StoreReader(StoreReader),
    /// An Admin API.
    Admin(AdminApi),
}

impl Target {
    /// Opens the target that the arguments select.
    pub(super) fn open(arguments: &ImportArguments, bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        if let Some(url) = &arguments.destination.admin {
            let key = arguments.destination.admin_key.as_deref();
            return Ok(Self::Admin(AdminApi::open(url, key, bootstrap)?));
        }
        if arguments.destination.dry_run {
            return Ok(Self::StoreReader(StoreReader::open(bootstrap)?));
        }
        Ok(Self::Store(OwnStore::open(bootstrap)?))
    }

    /// Returns the stored objects, with secrets unsealed where possible.
    pub(super) fn objects(&mut self) -> anyhow::Result<Objects> {
        match self {
            Self::Store(store) => store.objects(),
            Self::StoreReader(looked) => looked.objects(),
            Self::Admin(admin) => admin.objects(),
        }
    }

    /// Returns the keyring with which secrets in documents may be sealed.
    pub(super) fn keyring(&self) -> Option<&Keyring> {
        match self {
            Self::Store(store) => Some(&store.open.keyring),
            Self::StoreReader(looked) => looked.keyring.as_ref(),
            Self::Admin(admin) => admin.keyring(),
        }
    }

    /// Returns whether private keys of certificates can be compared.
    pub(super) fn hides_private_keys(&self) -> PrivateKeys {
        match self {
            Self::Store(_) | Self::StoreReader(_) => PrivateKeys::Seen,
            Self::Admin(_) => PrivateKeys::Hidden,
        }
    }

    /// Makes the changes. Returns the keys of objects that other programs changed after the
    /// comparison; these objects are not written.
    pub(super) fn apply(&mut self, changes: &[Change]) -> anyhow::Result<Vec<Box<str>>> {
        match self {
            Self::Store(store) => store.apply(changes),
            Self::StoreReader(_) => bail!("a store that is only looked at is not written"),
            Self::Admin(admin) => admin.apply(changes).map(|()| Vec::new()),
        }
    }

    /// Returns the path or URL of the target for messages.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Store(store) => store.name.clone(),
            Self::StoreReader(looked) => configured_store::name(&looked.bootstrap),
            Self::Admin(admin) => admin.name(),
        }
    }
}

pub(super) struct OwnStore {
    name: String,
    prefix: String,
    open: OpenStore,
    is_shared: bool,
    /// Revision at which the objects were last read.
    read_at: Revision,
}

impl OwnStore {
    fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Ok(Self {
            name: configured_store::name(bootstrap),
            prefix: objects::prefix(bootstrap).to_owned(),
            open: OpenStore::open(bootstrap)?,
            is_shared: configured_store::is_shared(bootstrap),
            read_at: Revision::ZERO,
        })
    }

    fn objects(&mut self) -> anyhow::Result<Objects> {
        let folder = format!("{}/", self.prefix);
        let listing = self.open.wait(self.open.store().list(&folder));
        let listing = listing.context("failed to read the store")?;
        self.read_at = listing.revision;
        Ok(objects_of(&listing, &self.prefix, Some(&self.open.keyring)))
    }

    fn apply(&self, changes: &[Change]) -> anyhow::Result<Vec<Box<str>>> {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let operations: Vec<_> =
            changes.iter().map(|change| self.operation(change, now_s)).collect();
        if self.is_shared {
            let (marker, compared_at) = (ImportMarker::new(&self.prefix), self.read_at);
            return WholeImport { open: &self.open, marker, compared_at }.write(operations);
        }
        self.write(operations)?;
        Ok(Vec::new())
    }

    /// Writes in as few transactions as the store's limits allow: one, except for very large
    /// documents.
    fn write(&self, operations: Vec<Operation>) -> anyhow::Result<()> {
        let all = operations.len();
        let mut batches = Batches::new(self.open.store().limits());
        operations.into_iter().for_each(|operation| batches.add(operation));
        let mut written = 0;
        for transaction in batches.finish() {
            let count = transaction.operations.len();
            let commit = self.open.store().commit(transaction);
            self.open.wait(commit).with_context(|| match written {
                0 => "failed to write to the store; nothing was written".to_owned(),
                _ => format!(
                    "failed to write to the store; {written} of {all} changes were written: repeat \
                     the import once the reason is gone"
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
            ObjectRef::new(change.kind, change.id.as_str()),
            &mut value,
            &tollhouse_control::plugins::catalogue(),
            &self.open.keyring,
        );
        Operation::Put { key, value: value.to_string().into(), lease: None }
    }
}

/// A store opened for reading.
pub(super) struct StoreReader {
    bootstrap: Box<Bootstrap>,
    keyring: Option<Keyring>,
}

impl StoreReader {
    fn open(bootstrap: &Bootstrap) -> anyhow::Result<Self> {
        Ok(Self {
            bootstrap: Box::new(bootstrap.clone()),
            keyring: secrets::keyring_if_any(bootstrap)?,
        })
    }

    fn objects(&self) -> anyhow::Result<Objects> {
        let prefix = objects::prefix(&self.bootstrap);
        match configured_store::read(&self.bootstrap) {
            Ok(listing) => Ok(objects_of(&listing, prefix, self.keyring.as_ref())),
            // A missing store counts as empty, because an import creates it.
            Err(error) if matches!(error.downcast_ref(), Some(StoreError::Missing { .. })) => {
                Ok(Objects::new())
            }
            Err(error) => Err(error).context("failed to read the store"),
        }
    }
}

fn objects_of(
    listing: &tollhouse_store::Listing,
    prefix: &str,
    keyring: Option<&Keyring>,
) -> Objects {
    let (mut found, wrong) = objects::from_listing(listing, prefix);
    problems::print("store", &wrong);
    let catalogue = tollhouse_control::plugins::catalogue();
    for ((kind, _), object) in &mut found {
        object.unseal(*kind, &catalogue, keyring);
    }
    found
}
