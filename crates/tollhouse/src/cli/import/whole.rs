//! Import into a store that gateways read and other programs may write meanwhile. The import may
//! need several commits, which gateways apply as one. Objects that were changed after the
//! comparison are not overwritten.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tollhouse_control::feed::import_marker::ImportMarker;
use tollhouse_store::{
    Batches, Condition, LeaseId, Limits, Operation, Revision, StoreError, Transaction,
};

use crate::cli::configured_store::OpenStore;

/// Maximum number of operations per commit. This is below etcd's default limit of 128, because the
/// conditions of a commit count too.
const OPERATIONS_MAX: usize = 100;

/// Interval between renewals of the import's lease; several fit into the lease's duration.
const RENEWAL: Duration = Duration::from_secs(5);

const OTHER: &str = "another import is under way, or was broken off less than half a minute ago; nothing was \
                     written";

/// Import in progress; see the module documentation.
pub(super) struct WholeImport<'a> {
    pub(super) open: &'a OpenStore,
    pub(super) marker: ImportMarker,
    /// Revision at which the objects were compared.
    pub(super) compared_at: Revision,
}

impl WholeImport<'_> {
    /// Writes all operations. Returns the keys of objects that other programs changed after the
    /// comparison; these objects are not written.
    pub(super) fn write(&self, operations: Vec<Operation>) -> anyhow::Result<Vec<Box<str>>> {
        let limits = self.open.store().limits();
        let limits = Limits { operations_max: limits.operations_max.min(OPERATIONS_MAX), ..limits };
        let all = operations.len();
        let mut batches = Batches::new(limits);
        operations.into_iter().for_each(|operation| batches.add(operation));
        let mut batches = batches.finish();
        let mut left = Vec::new();
        // A single commit is atomic, so that gateways need no marker of an import in progress.
        if batches.len() <= 1 {
            let only = batches.pop().unwrap_or_default();
            self.commit(only, |it| self.marker.alone(it), &mut left)
                .context("failed to write to the store; nothing was written")?;
            return Ok(left);
        }
        let lease = match self.open.wait(self.marker.begin(self.open.store())) {
            Ok(lease) => lease,
            Err(StoreError::Conflict { .. }) => bail!(OTHER),
            Err(error) => {
                return Err(error).context("failed to write to the store; nothing was written");
            }
        };
        let mut written = 0;
        let done = self.write_batches(batches, lease, &mut written, &mut left);
        let ended =
            done.and_then(|()| Ok(self.open.wait(self.marker.end(self.open.store(), lease))?));
        ended.with_context(|| {
            format!(
                "the import was broken off after {written} of {all} changes: gateways serve what was there \
                 before for another minute, and then what there is; repeat the import once the reason is gone"
            )
        })?;
        Ok(left)
    }

    fn write_batches(
        &self,
        batches: Vec<Transaction>,
        lease: LeaseId,
        written: &mut usize,
        left: &mut Vec<Box<str>>,
    ) -> anyhow::Result<()> {
        let mut renewed = Instant::now();
        for batch in batches {
            if renewed.elapsed() > RENEWAL {
                self.open.wait(self.open.store().keep_alive(lease))?;
                renewed = Instant::now();
            }
            let count = batch.operations.len();
            self.commit(batch, |it| it.while_held(lease), left)?;
            *written += count;
        }
        Ok(())
    }

    /// Commits a batch, except for the keys that other programs changed after the comparison.
    fn commit(
        &self,
        mut batch: Transaction,
        fenced: impl Fn(Transaction) -> Transaction,
        left: &mut Vec<Box<str>>,
    ) -> anyhow::Result<()> {
        while !batch.operations.is_empty() {
            let mut transaction = fenced(batch.clone());
            transaction.conditions.extend(batch.operations.iter().filter_map(key).map(|key| {
                Condition::UnchangedSince { key: key.into(), revision: self.compared_at }
            }));
            match self.open.wait(self.open.store().commit(transaction)) {
                Ok(_) => return Ok(()),
                Err(StoreError::Conflict { key: changed }) => {
                    if changed == self.marker.alive {
                        bail!(OTHER);
                    }
                    batch.operations.retain(|operation| key(operation) != Some(&*changed));
                    left.push(changed);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

fn key(operation: &Operation) -> Option<&str> {
    match operation {
        Operation::Put { key, .. } | Operation::Delete { key } => Some(key),
        Operation::DeletePrefix { .. } => None,
    }
}
