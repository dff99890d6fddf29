//! Observability of the gateway: error codes, metrics, the access log.
//!
//! A worker pays a load and a store for a count, and a copy into its own buffer for a log line; it
//! never takes a lock and never waits for a disk. Summing, rendering and writing happen on other
//! threads. Nothing here serves HTTP: the caller exposes the rendered text.

#![forbid(unsafe_code)]

pub mod access_log;
pub mod apisix;
pub mod catalogue;
pub mod codes;
pub mod counters;
pub mod exemplars;
pub mod exposition;
pub mod handshakes;
pub mod histogram;
pub mod labels;
pub mod metrics;
pub mod node_series;
pub mod object_counts;
pub mod objects_page;
pub mod plugin_refusals;
pub mod plugin_times;
mod prometheus;
pub mod recent;
pub mod route_refusals;
pub mod route_series;

pub use catalogue::{CoreMetrics, ProcessMetrics};
pub use codes::ErrorCode;
pub use labels::{ConnectionRefusal, DatagramDrop, HandshakeFailure, StatusClass};
pub use metrics::{CoreHandle, Counted, Metrics};
