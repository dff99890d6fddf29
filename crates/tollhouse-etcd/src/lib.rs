//! etcd as the store of gateways: keys and values as they stand there, in APISIX's layout or any other.
//!
//! [`EtcdStore`] passes the suite that every store passes. An etcd that is away is no end: reads fail with
//! [`ErrorKind::Unavailable`](tollhouse_store::ErrorKind::Unavailable), watches wait and go on where they
//! were, and whoever wants to know asks [`EtcdStore::outages`]. Facts that the code rests on were read in
//! etcd's sources and documents, from 3.4 on; where versions differ, the oldest decides.

#![forbid(unsafe_code)]

mod endpoints;
mod examine;
mod failure;
mod keys;
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
pub use options::{EtcdOptions, Identity, Relocation, Tls};
pub use store::EtcdStore;
