//! Configuration written by operators: the bootstrap file with its overrides, and the declarative
//! file.
//!
//! The only crate that reads the environment, through a closure passed by the binary. Objects of a
//! declarative file are located, identified and compared with the previous file here; they are
//! validated in `tollhouse-model`.

#![forbid(unsafe_code)]

pub mod bootstrap;
pub mod declarative;
pub mod diff;
mod environment;
mod file;
pub mod store_keys;
mod substitute;
mod yaml;

pub use bootstrap::{Bootstrap, Loaded};
pub use declarative::{Document, Format, Item, Kind};
pub use diff::{Changes, Fingerprints, ItemRecord, diff};
pub use environment::{EnvironmentSecrets, environment_secrets};

#[cfg(test)]
mod golden;
