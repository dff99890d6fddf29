//! Test bed of a measurement on one machine: programs on chosen cores, the configurations of
//! Tollhouse, nginx and HAProxy, the figures of `/proc`, and the description of the machine.
//!
//! The suites of `tollhouse bench` and the cases of `cargo x bench` use the same test bed. Loads,
//! cases and results are not part of it.

mod cores;
mod environment;
mod error;
mod gateway;
mod procfs;
mod program;
mod proxy;
mod stat;

pub use cores::Cores;
pub use environment::Environment;
pub use error::Error;
pub use gateway::{Bootstrap, Listen};
pub use procfs::Procfs;
pub use program::{Program, Response, ask, find, free_port};
pub use proxy::{Haproxy, Nginx, Upstream};
pub use stat::{Stat, Table, parse_stat, stat, table};
