//! The configuration store: revisioned keys and values, committed in transactions, with watches.
//!
//! [`Store`] is the trait; [`open`] opens a store. The semantics are those of etcd: every commit
//! gets one revision for all of its operations, a watcher sees the changes under its prefix in
//! whole commits and in order, and entries under a lease end in a separate commit. Backends are in
//! `backend/`, one file or folder each, and all pass the suite in `conformance`. Features that only
//! a store in a file has (lock, backup, disk reserve) are not part of the trait; they are
//! configured in [`open_with`] or provided by [`backup_directory`]. Values are opaque bytes.

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

/// Semantics of transactions and history of commits, for backends in other crates.
pub mod engine {
    pub use crate::backend::apply::{ApplyOutcome, Table, Terms, apply, end_of_prefix, removal};
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
pub use options::{HistoryExtent, Location, Options};
pub use store::Store;
pub use transaction::{Committed, Condition, Operation, Transaction};
pub use watch::{Lost, Watch, WatchEvent, WatchSource};
