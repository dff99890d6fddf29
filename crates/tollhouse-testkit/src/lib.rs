//! What tests share: origins that do exactly what a test says, clients that send exactly the bytes
//! a test gives, and a gateway of its own for each test that wants one.
//!
//! Threads and blocking sockets throughout, on ports of the kernel's choice or reserved for the test. Every
//! wait is for an event and ends at one deadline. A helper that is let down panics with what it saw,
//! since its caller is a test. Nothing here ships.

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
