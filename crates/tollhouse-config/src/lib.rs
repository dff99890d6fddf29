//! What an operator writes: the bootstrap file with its overrides, and the declarative file.
//!
//! The only crate that reads the environment, and it does so through a closure that the binary
//! hands in. Judging the objects of a declarative file is the model's work; here they are only
//! found, told apart and compared with the last file.

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
pub use diff::{Changes, Fingerprints, Known, diff};
pub use environment::{EnvironmentSecrets, environment_secrets};

#[cfg(test)]
mod golden;
