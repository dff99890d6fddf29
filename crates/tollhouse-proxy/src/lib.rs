//! Data plane: one thread per core takes requests from clients to upstream nodes and relays the
//! responses.
//!
//! Start with `pipeline.rs`, the life of a request, and `compile.rs`, the life of a configuration
//! change. The other modules serve one of the two:
//!
//! - `worker` is a core, `run` its event loop, and `connection` the client's side of a connection;
//! - `exchange` holds one request and its response; the `stages` work on it in the pipeline's
//!   order;
//! - `l4` serves TCP connections and UDP datagrams by stream routes;
//! - `http2` multiplexes many exchanges over one connection;
//! - `plugins` is the view that plugins have of an exchange, `answer` writes responses to clients,
//!   `transfer` moves bodies, and `turn` limits how long one task runs before it yields.
//!
//! Nothing here reads a file, an environment variable or a store, and no lock is shared with the
//! control side.

#![forbid(unsafe_code)]

mod answer;
mod challenges;
pub mod compile;
mod connection;
pub mod consumers;
mod error;
mod exchange;
mod grpc;
mod hash_key;
mod head;
mod http2;
pub mod l4;
mod offload;
mod pipeline;
pub mod plugins;
mod run;
pub mod settings;
pub mod snapshot;
mod stages;
#[cfg(test)]
mod testing;
mod transfer;
mod turn;
pub mod worker;

pub use challenges::Challenges;
pub use compile::{Change, Compiler, ShenyuChange};
pub use settings::Settings;
pub use snapshot::{Snapshot, SnapshotCell};
pub use worker::{Phase, Worker, WorkerParts};
