//! MySQL, MariaDB and PostgreSQL as a store shared by several nodes.
//!
//! [`SqlStore`] passes the conformance suite of all stores. Objects are rows. Every commit appends
//! a row to a change log, numbered by a single counter row. A writer locks the counter from its
//! first read of objects until it commits, so numbers are as dense as commits and appear in order.
//! Writers of one node share an engine transaction ([`writer`]). If a connection is lost during a
//! commit, the outcome is determined by a claim on the commit's random number. Every node follows
//! the log by polling ([`follower`]); PostgreSQL notifications only speed this up.
//!
//! All statements are plain text with literals in hexadecimal or base64, sent as whole packets.
//! Nothing is prepared on the engine, so that poolers in transaction mode work, and a change and
//! its COMMIT travel together. A driver future is never dropped while its connection is still used.

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

pub use examine::{ServerReport, Tables, examine};
pub use exchange::Exchange;
pub use options::{Engine, SqlOptions, SqlServer, Tls};
pub use snapshot::Snapshot;
pub use store::SqlStore;
