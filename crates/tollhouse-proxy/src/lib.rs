//! The data plane: one thread per core takes requests from clients to nodes and answers back.
//!
//! Start with `pipeline.rs`, the life of a request, and `compile.rs`, the life of a change. The
//! rest serves one of the two:
//!
//! - `worker` is a core and `run` its loop, `connection` a client's side;
//! - `exchange` is one request and its answer, which `stages` work on in the pipeline's order;
//! - `l4` serves connections below HTTP and datagrams, by stream routes;
//! - `http2` makes many exchanges of one connection;
//! - `plugins` is what plugins see of it, `answer` what clients get, `transfer` the moving bytes, `turn` for how
//!   long at a time.
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
