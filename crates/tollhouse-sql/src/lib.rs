//! MySQL, MariaDB and PostgreSQL as a store that several nodes share.
//!
//! [`SqlStore`] passes the suite that every store passes. Objects are rows, and every commit leaves a row of
//! a change log, numbered by one counter row whose lock each writer holds from its first look at the objects
//! until it commits: so numbers are as dense as commits, and appear in their order. Writers of one node share
//! a transaction of the engine ([`writer`]); what a lost connection leaves open is decided by a claim on the
//! commit's random number. Every node follows the log by polling ([`follower`]); PostgreSQL's notifications
//! only hasten it.
//!
//! All statements are plain text with literals in hexadecimal or base64, sent as whole packets: nothing is
//! prepared on the engine, so that poolers of transactions can stand between, and a change and its COMMIT
//! travel together. A future of the driver is never dropped while its connection lives on.

#![forbid(unsafe_code)]

mod body;
mod connection;
mod dialect;
mod examine;
mod exchange;
mod failure;
mod follower;
mod group;
mod leases;
mod limits;
mod listener;
mod options;
mod packets;
mod readers;
mod room;
mod schema;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod writer;

pub use examine::{Examined, Tables, examine};
pub use exchange::Exchange;
pub use options::{Engine, SqlOptions, Tls};
pub use snapshot::Snapshot;
pub use store::SqlStore;
