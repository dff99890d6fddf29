//! The configuration store: revisioned keys and values, committed in transactions, watched.
//!
//! [`Store`] is the trait, [`open`] gives one. The semantics are etcd's, no more and no less: every commit
//! gets one revision that all of its operations share, a watcher sees what lies under its prefix in whole
//! commits and in order, and what a lease holds ends in a commit of its own. Backends live under `backend/`,
//! one file or folder each, and all pass the suite in `conformance`. What only a store in a file has (its
//! lock, its backup, the room it keeps on the disk) is no part of the trait: it is given to [`open_with`],
//! or asked of [`backup_directory`]. Values are bytes here: what they mean is the business of those who
//! write them.

#![forbid(unsafe_code)]

mod backend;
mod batches;
mod changes;
mod clock;
#[cfg(any(test, feature = "conformance"))]
#[doc(hidden)]
pub mod conformance;
mod entry;
mod error;
mod future;
mod in_service;
mod lease;
pub mod limits;
mod options;
mod store;
mod transaction;
mod watch;

/// What a transaction means and how watchers are served, for backends in crates of their own.
pub mod engine {
    pub use crate::backend::apply::{Applied, Table, Terms, apply, end_of_prefix, removal};
    pub use crate::backend::history::History;
}

pub use backend::{
    Progress, backup_directory, open, open_with, read_directory, read_directory_alone,
};
pub use batches::Batches;
pub use changes::{Changes, Event};
pub use clock::{Clock, ManualClock};
pub use entry::{Entry, Listing, Revision};
pub use error::{ErrorKind, StoreError};
pub use future::BoxFuture;
pub use in_service::InService;
pub use lease::LeaseId;
pub use limits::Limits;
pub use options::{HistoryKept, Location, Options};
pub use store::Store;
pub use transaction::{Committed, Condition, Operation, Transaction};
pub use watch::{Lost, Watch, WatchEvent, WatchSource};
