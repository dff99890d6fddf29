//! One worker between a client and a node, over loopback sockets. Whole processes are tested in
//! `crates/tollhouse/tests/it`; here is what needs a look inside: snapshots, counters, logs.

mod connections;
mod grpc_plugins;
mod http2;
mod http2_cancelled;
mod http2_floods;
mod http2_nodes;
#[path = "../support/mod.rs"]
mod support;
mod tracing;
mod tunnels;
