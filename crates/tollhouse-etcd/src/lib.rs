//! etcd as the store of gateways, in APISIX's layout or any other.
//!
//! [`EtcdStore`] passes the conformance suite of all stores. While etcd is down, reads fail with
//! [`ErrorKind::Unavailable`](tollhouse_store::ErrorKind::Unavailable), watches wait and resume
//! where they stopped, and [`EtcdStore::outages`] reports the reason. The code relies on behaviour
//! found in the source code and documentation of etcd from 3.4 on; where versions differ, it
//! supports the oldest.

#![forbid(unsafe_code)]

mod endpoints;
mod examine;
mod failure;
mod keys;
mod lag;
mod leases;
mod listing;
mod member;
mod messages;
mod options;
mod outages;
mod store;
#[cfg(test)]
mod tests;
mod transaction;
mod watch;

pub use examine::{ExaminedMember, MemberStatus, examine};
pub use lag::{WatchLag, WatchLags};
pub use options::{EtcdOptions, Identity, Relocation, Tls};
pub use store::EtcdStore;
