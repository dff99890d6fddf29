//! The data plane: one thread per core takes requests from clients to nodes and answers back.
//!
//! Start with `pipeline.rs`, the life of a request, and `compile.rs`, the life of a change. The
//! rest serves one of the two: `worker` is a core, `client` a connection, `forward` and `attempt`
//! the way to a node, `respond` the way back, `exchange` the moving bytes, `rescue` every error.
//!
//! Nothing here reads a file, an environment variable or a store, and no lock is shared with the
//! control side.

#![forbid(unsafe_code)]

mod account;
mod attempt;
mod buffer;
mod client;
mod client_address;
pub mod compile;
pub mod consumers;
mod delivery;
mod error;
mod exchange;
mod failures;
mod forward;
mod hash_key;
mod head;
mod kept;
mod local;
mod log;
mod normalise;
mod offload;
mod pipeline;
mod plugged;
pub mod plugins;
mod pool;
mod request;
mod request_body;
mod rescue;
mod respond;
mod respond_plugged;
mod serve;
mod server_options;
pub mod settings;
pub mod snapshot;
#[cfg(test)]
mod testing;
mod upstream_head;
pub mod worker;

pub use compile::{Change, Compiler};
pub use settings::Settings;
pub use snapshot::{Snapshot, SnapshotCell};
pub use worker::{Phase, Worker, WorkerParts};
