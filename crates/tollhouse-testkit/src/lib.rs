//! Shared test tools: origins and clients with exact control over bytes, and private gateways and
//! servers for each test.
//!
//! All of them use threads and blocking sockets, on ports that the kernel chooses or that are
//! reserved for the test. Waiting always ends at an event or a common deadline. A failing helper
//! panics with the observed state, because its caller is a test. Not part of any release.

#![forbid(unsafe_code)]

pub mod certificate;
pub mod client;
pub mod database;
pub mod etcd;
pub mod gateway;
pub mod history;
pub mod identity_provider;
pub mod load;
pub mod memory;
pub mod message;
pub mod origin;
pub mod patience;
pub mod ports;
pub mod program;
pub mod redis;
pub mod relay;
pub mod responder;
pub mod small_disk;
pub mod wire;

pub use client::RawClient;
pub use database::Database;
pub use etcd::{Etcd, EtcdCertificates, EtcdCluster};
pub use gateway::{Gateway, GatewayBuilder};
pub use identity_provider::IdentityProvider;
pub use load::{Load, LoadReport};
pub use message::Message;
pub use origin::{Connection, Origin};
pub use ports::{ClosedPort, ReservedPort, StuckPort};
pub use redis::RedisServer;
pub use small_disk::SmallDisk;
